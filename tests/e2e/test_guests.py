"""Several crawls at once in one folder: the second command joins the process that owns it."""

import asyncio
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.command import SHOAL, TIMEOUT, shoal, surroundings
from tests.graph_crawl import FIELDS, SPIDER, assert_same, serving_graph
from tests.guests import Member, count_requests, hold, let_go, wait_for_requests
from tests.site.access_log import Hit, by_host, violations
from tests.site.graph import Graph, Shape

CLOCK_SLACK_S = 0.001
ONE_PAGE = ("--depth", "0", "--crawl", "small", "--allow-private", "--rate", "3")
RATE = 30

OTHER_SPIDER = """\
import shoal

spider = shoal.Spider("titles")


@spider.page()
def page(page):
    yield {"url": page.url, "title": page.css("h1::text").get()}
    yield from page.links()
"""


def members(graph: Graph, tmp_path: Path, *options: str) -> tuple[Member, Member]:
    """Return two crawls of a graph, in one store, each with its own working folder."""
    chosen = options or ("--rate", str(RATE))
    first, second = (
        Member(name, tmp_path / name, tmp_path / "store", graph.start, chosen) for name in ("first", "second")
    )
    return first, second


async def start_together(first: Member, second: Member, graph: Graph) -> None:
    """Start both, the second one as a guest of the first; nothing is sent yet."""
    await hold(first.store, graph.authorities)
    first.start()
    await first.said("items go to")
    second.start()
    await second.said(f"process {first.pid} owns")


def assert_graph(member: Member, graph: Graph) -> None:
    found = [tuple(row[field] for field in FIELDS) for row in member.items()]
    assert_same(
        member.name, found, [tuple(item[field] for field in FIELDS) for item in graph.expected().items]
    )


def crashes(store: Path) -> dict[str, int]:
    """Return how many requests and pages of each crawl a process has died with."""
    with closing(sqlite3.connect(store / "store.db")) as database:
        rows = database.execute("SELECT name, counts FROM crawl").fetchall()
    return {name: json.loads(counts).get("crashes", 0) for name, counts in rows}


def assert_pace(hits: list[Hit], rate: float) -> None:
    for host, seen in by_host(hits).items():
        assert not violations([hit.arrived for hit in seen], rate=rate, slack_s=CLOCK_SLACK_S), host


async def test_two_spiders_run_at_once_in_one_folder_and_keep_one_pace(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT), serving_graph(Shape(pages=80, hosts=2)) as (site, graph):
        first, second = members(graph, tmp_path)
        second.folder.mkdir()
        second.spider = Path("titles.py")  # in the folder of the second process alone
        (second.folder / second.spider).write_text(OTHER_SPIDER)
        await start_together(first, second, graph)
        paused = second.shoal("pause", "second")
        running = second.shoal("status", "--json").json
        resumed = second.shoal("resume", "second")
        await let_go(first.store, graph.authorities)
        codes = await first.ended(), await second.ended()
        hits = await site.hits()

    assert codes == (0, 0), (first.log, second.log)
    assert (paused.code, resumed.code) == (0, 0)
    assert running["running"] is True
    assert {crawl["crawl"]: crawl["paused"] for crawl in running["crawls"]} == {
        "first": False,
        "second": True,
    }
    assert_graph(first, graph)
    assert_same("titles", [row["url"] for row in second.items()], graph.expected().pages)
    assert_pace(list(hits), RATE)
    assert second.shoal("verify").code == 0


@pytest.mark.parametrize("stopped", ["first", "second"])
async def test_ctrl_c_ends_one_crawl_and_the_other_one_continues(tmp_path: Path, stopped: str) -> None:
    async with asyncio.timeout(TIMEOUT), serving_graph(Shape(pages=60, hosts=2)) as (site, graph):
        first, second = members(graph, tmp_path)
        await start_together(first, second, graph)
        await let_go(first.store, graph.authorities)
        await wait_for_requests(site, 20)
        chosen, other = (first, second) if stopped == "first" else (second, first)
        chosen.interrupt()
        assert await chosen.ended() == 3, chosen.log
        assert await other.ended() == 0, other.log
        chosen.start()
        assert await chosen.ended() == 0, chosen.log
        hits = await site.hits()

    for member in (first, second):
        assert_graph(member, graph)
    assert {name: count for name, count in crashes(first.store).items() if count} == {}
    assert_pace(list(hits), RATE)
    assert first.shoal("verify").code == 0
    assert ("store.taken_over" in second.log) is (stopped == "first")


async def test_a_crawl_that_is_complete_or_runs_already_says_so_and_names_the_process(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT), serving_graph(Shape(pages=400, hosts=2)) as (_, graph):
        first, second = members(graph, tmp_path, "--rate", "3")
        await start_together(first, second, graph)
        await let_go(first.store, graph.authorities)
        complete = shoal("crawl", graph.start, *ONE_PAGE, "--store", str(first.store), cwd=tmp_path)
        nothing = shoal("crawl", graph.start, *ONE_PAGE, "--store", str(first.store), cwd=tmp_path)
        answers = []
        for member in (first, second):
            again = Member(member.name, tmp_path / "third", member.store, graph.start, member.options)
            again.start()
            assert await again.ended() == 4
            answers.append(again.log.splitlines()[-1])
        first.interrupt()
        second.interrupt()
        codes = await first.ended(), await second.ended()

    assert codes == (3, 3)
    assert (complete.code, nothing.code) == (0, 0), (complete.err, nothing.err)
    assert "Nothing to do" in nothing.out
    for member, answer in zip((first, second), answers, strict=True):
        assert f"crawl {member.name} is being run by process {member.pid}" in answer


async def test_a_guest_writes_to_its_own_standard_output_and_prints_its_own_summary(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT), serving_graph(Shape(pages=30, hosts=1)) as (_, graph):
        first, second = members(graph, tmp_path, "--rate", "20")
        await hold(first.store, graph.authorities)
        first.start()
        await first.said("items go to")
        second.folder.mkdir()
        arguments = ["crawl", str(SPIDER), graph.start, "--store", "../store", "--crawl", "second", "--json"]
        options = ["--any-host", "--allow-private", "--rate", "20", "--out", "-"]
        guest = await asyncio.create_subprocess_exec(
            *SHOAL, *arguments, *options, cwd=second.folder, env=surroundings(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        while not first.shoal("urls", "--state", "waiting", "--crawl", "second").out:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await let_go(first.store, graph.authorities)
        out, err = await guest.communicate()
        assert await first.ended() == 0, first.log

    assert guest.returncode == 0, err
    summary = json.loads(err)
    items = [json.loads(line) for line in out.splitlines()]
    assert (summary["crawl"], summary["ending"]) == ("second", "finished")
    assert summary["items"] == len(items) == len(graph.expected().items)


async def test_a_guest_begins_again_only_once_when_its_owner_ends_in_between(tmp_path: Path) -> None:
    """`--again` deletes the last generation: a guest that takes over resumes what it has begun."""
    async with asyncio.timeout(2 * TIMEOUT), serving_graph(Shape(pages=40, hosts=1)) as (site, graph):
        first, second = members(graph, tmp_path)
        second.start()
        assert await second.ended() == 0, second.log
        before = await count_requests(site)
        second.options = (*second.options, "--again")
        await start_together(first, second, graph)
        await let_go(first.store, graph.authorities)
        await wait_for_requests(site, before + 30)
        first.kill()
        assert await second.ended() == 0, second.log
        asked = await count_requests(site) - before

    assert "store.taken_over" in second.log
    assert_graph(second, graph)
    # The first crawl until its kill, the second one, its pages in progress at the kill once more, robots.txt.
    assert asked <= 40 + 40 + 16 + 64
    assert second.shoal("verify").code == 0


async def test_a_list_on_standard_input_is_read_on_when_the_owner_is_killed(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT), serving_graph(Shape(pages=40, hosts=1)) as (_, graph):
        first, second = members(graph, tmp_path, "--rate", "50")
        await hold(first.store, graph.authorities)
        first.start()
        await first.said("items go to")
        urls = sorted(graph.expected().pages)
        arguments = (
            "crawl",
            "--seeds",
            "-",
            "--crawl",
            "listed",
            "--store",
            str(second.store),
            "--depth",
            "0",
        )
        guest = await asyncio.create_subprocess_exec(
            *SHOAL, *arguments, "--allow-private", "--rate", "50", "--out", "listed.jsonl",
            cwd=tmp_path, env=surroundings(), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert guest.stdin is not None
        guest.stdin.write("".join(f"{url}\n" for url in urls[:20]).encode())
        await guest.stdin.drain()
        while "listed" not in first.shoal("status").out:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)
        first.kill()
        while str(guest.pid) not in (first.store / "lock").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        guest.stdin.write("".join(f"{url}\n" for url in urls[20:]).encode())
        guest.stdin.close()
        await let_go(first.store, graph.authorities)
        _, err = await guest.communicate()

    assert guest.returncode == 0, err
    lines = (tmp_path / "listed.jsonl").read_text().splitlines()
    assert_same("listed", [json.loads(line)["url"] for line in lines], urls)
