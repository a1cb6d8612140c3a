"""`shoal trace` in a fleet whose workers have different roles: what it says is what the server has seen."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import HASTY, records, shoal
from tests.fleet_crawl import Fleet
from tests.servers.redis import RedisServer, valkey
from tests.site.access_log import Hit
from tests.site.fates import LINKS
from tests.site.server import serving

SPIDER = """
import shoal

spider = shoal.Spider("fates", start=[{start!r}], hosts={hosts!r}, key="path")


@spider.page()
def anything(page):
    yield {{"path": page.url.partition("//")[2].partition("/")[2] or "start"}}
    yield from page.links()
"""
ROLES = ("fetch", "fetch", "parse", "parse,sink")
ENDING = ("", "done", "retried", "dead", "gone", "private/page")  # all but the one that waits
POLL_S, PATIENCE_S = 0.2, 60.0


def is_known(trace: dict[str, Any]) -> bool:
    """Return whether the last row of a request that ends is in the log."""
    return trace["state"] in ("done", "gone", "filtered") or len(trace["attempts"]) == 3


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with valkey(tmp_path / "server") as running:
        yield running


async def test_T28_a_trace_in_a_fleet_is_complete_and_equal_to_the_log_of_the_server(
    server: RedisServer, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with serving("tests.site.fates:build", "", hosts=2) as site:
        first, second = site.authorities
        start = f"http://{first}/"
        spider = folder / "fates.py"
        spider.write_text(SPIDER.format(start=start, hosts=[first, second]))
        with Fleet(server.dsn, folder, settings={**HASTY, "SHOAL_RETRY_MAX_RETRIES": "2"}) as fleet:
            quick = ("--allow-private", "--rate", "0", "--out", "items.jsonl", "--json")
            assert shoal("submit", str(spider), *quick, cwd=folder, env=fleet.env).code == 0
            assert shoal("host", "block", second, cwd=folder, env=fleet.env).code == 0
            for roles in ROLES:
                fleet.start("--roles", roles, "-vv", "--log-format", "json")

            def trace(path: str) -> dict[str, Any]:
                ran = shoal(
                    "trace", path if "://" in path else start + path, "--json", cwd=folder, env=fleet.env
                )
                assert ran.code == 0, ran.err
                [found] = ran.json["traces"]
                return dict(found)

            async with asyncio.timeout(PATIENCE_S):
                while True:
                    counts = fleet.counts()
                    # A row is written within a second of its commit.
                    ended = sum(counts[state] for state in ("done", "dead", "gone", "filtered"))
                    if (
                        ended == len(ENDING)
                        and all(is_known(trace(path)) for path in ENDING)
                        and trace("done")["unwritten_pages"] == 0
                    ):
                        break
                    await asyncio.sleep(POLL_S)
            done, retried, dead = trace("done"), trace("retried"), trace("dead")
            gone, private = trace("gone"), trace("private/page")
            waiting, origin = trace(f"http://{second}/waiting"), trace("")
            hits = await site.hits()
            [text] = [shoal("trace", f"{start}retried", cwd=folder, env=fleet.env).out]
            lines = [json.loads(line) for line in fleet.logs().splitlines() if line]

    def seen(path: str) -> list[Hit]:
        return [hit for hit in hits if hit.host == first and hit.path == path]

    for path, found in (("/done", done), ("/retried", retried), ("/dead", dead), ("/gone", gone)):
        requests = seen(path)
        attempts = found["attempts"]
        assert [one["status"] for one in attempts] == [hit.status for hit in requests], path
        for attempt, hit in zip(attempts, requests, strict=True):
            assert attempt["started_at"] <= hit.arrived <= attempt["started_at"] + attempt["elapsed_s"] + 0.05
            assert attempt["elapsed_s"] + 0.05 >= hit.ended - hit.arrived
            assert attempt["worker"]
            assert attempt["address"] == first.partition(":")[0]
            assert attempt["phases_s"]["first_byte"] > 0, (path, attempt)
        assert found["found_on"]["url"] == start
        assert found["accepted_at"] <= requests[0].arrived
    assert [one["number"] for one in retried["attempts"]] == [1, 2, 3]
    assert [one["class"] for one in retried["attempts"]] == ["target_error", "target_error", None]
    states = [found["state"] for found in (done, retried, dead, gone, private, waiting)]
    assert states == ["done", "done", "dead", "gone", "filtered", "waiting"]
    assert dead["class"] == "target_error"
    assert private["class"] == "robots"
    assert not private["attempts"][0]["sent"]
    assert waiting["attempts"] == []
    assert not [hit for hit in hits if hit.host == second and hit.path == "/waiting"]

    fetchers = {one["worker"] for found in (done, retried, dead, gone) for one in found["attempts"]}
    for found, key in ((done, "done"), (retried, "retried")):
        assert found["page"]["segment"]
        assert found["page"]["items"] == 1
        assert found["parsed_at"]["worker"] not in fetchers  # the roles are apart
        assert found["parsed_at"]["keys"] == [key]
        assert found["parsed_by"]["version"]
        assert found["outputs"] == [str(folder / "items.jsonl")]
        assert found["unwritten_pages"] == 0
        assert [row["path"] for row in records(folder / "items.jsonl")].count(key) == 1  # in the sink
    assert (origin["found_on"], origin["page"]["links"], origin["page"]["items"]) == (None, len(LINKS) + 1, 1)
    assert (dead["page"], dead["parsed_at"], dead["reason"]) == (None, None, "status 500")
    assert (waiting["found_on"]["url"], waiting["holder"]) == (start, "")
    assert "  keys      retried" in text
    assert text.count("  try ") == 3

    check_log(lines, {one["url"]: one["trace"] for one in (done, retried, dead, gone, private, waiting)})
    for path, found in (("/done", done), ("/retried", retried), ("/dead", dead), ("/gone", gone)):
        about = [line for line in lines if line.get("trace") == found["trace"]]
        # The logs of the workers follow each other, and their times are in seconds: the number tells the order.
        tried = sorted(
            (line.get("attempt", 1), line["status"]) for line in about if line["event"] in ATTEMPTS
        )
        assert tried == list(enumerate([hit.status for hit in seen(path)], start=1)), path
        assert {line["event"] for line in about} >= EVENTS[path], path


ATTEMPTS = ("request.done", "request.gone", "request.retried", "request.failed")
EVENTS = {  # of these requests, at all workers together
    "/done": {"request.done", "item.found", "page.parsed"},
    "/retried": {"request.retried", "request.done", "item.found", "page.parsed"},
    "/dead": {"request.retried", "request.failed"},
    "/gone": {"request.gone"},
}


def check_log(lines: Sequence[Mapping[str, Any]], traces: Mapping[str, str]) -> None:
    """Raise if a line about a request is without its trace id, or with another one."""
    about = [line for line in lines if "url" in line or line["event"].startswith(("request.", "attempt."))]
    for line in about:
        assert re.fullmatch(r"[0-9a-f]{16}", line.get("trace", "")), line
        if line["event"] != "link.skipped":  # which names the page that has the link
            assert line["trace"] == traces.get(line["url"], line["trace"]), line
