"""The second run: what a command does to a crawl that exists, in a folder and on a shared store."""

import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.e2e.command import NO_RETRIES, QUICK, Ran, records, shoal, started
from tests.graph_crawl import FIELDS, SPIDER, assert_same, serving_graph
from tests.servers.process import free_port
from tests.servers.redis import valkey
from tests.site.access_log import fetches
from tests.site.graph import Shape

SHAPE = Shape(seed=3, pages=80, hosts=4, links=3, chain=4, redirects=12, gone=3, spellings=True, queries=True)
PAGES = {
    "/": '<h1>Home</h1><a href="/a/1">1</a><a href="/b/1">2</a>',
    "/a/1": '<h1>A 1</h1><a href="/a/2">next</a>',
    "/a/2": '<h1>A 2</h1><a href="/a/3">next</a>',
    "/a/3": "<h1>A 3</h1>",
    "/b/1": "<h1>B 1</h1>",
}


class Server(ThreadingHTTPServer):
    def __init__(self, port: int = 0) -> None:
        self.asked: list[str] = []
        self.pages = dict(PAGES)
        self.down = False
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def start(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(missing=401)

    def do_GET(self) -> None:
        self._answer(missing=404)

    def _answer(self, *, missing: int) -> None:
        text = self.server.pages.get(self.path, "")
        if self.path != "/robots.txt":
            self.server.asked.append(self.path)
        self.send_response(500 if self.server.down else 200 if text else missing)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Server]:
    with Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(params=["folder", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield "store"
        return
    async with valkey(tmp_path / "server") as running:
        yield running.dsn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


class Runs:
    """Commands on one store, in one folder."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.folder = folder

    def crawl(self, *arguments: str) -> Ran:
        options = (*QUICK, "--store", self.store)
        return shoal("crawl", *arguments, *options, cwd=self.folder, env=NO_RETRIES)

    def headings(self, name: str = "o.jsonl") -> list[str]:
        return sorted(record["h1"] for record in records(self.folder / name))


async def test_wider_limits_find_exactly_what_they_had_left_out(store: str, folder: Path) -> None:
    runs = Runs(store, folder)
    async with serving_graph(SHAPE) as (site, graph):
        expected = graph.expected()
        command = (str(SPIDER), graph.start, "--out", "items.jsonl", "--quiet")

        for limits in (
            ("--depth", "1", "--same-host", "--max-pages", "3"),
            ("--depth", "1", "--same-host"),
            ("--depth", "3", "--same-host"),
            ("--depth", "3", "--any-host"),
            ("--any-host",),
        ):
            before = await site.served()
            ran = runs.crawl(*command, *limits)
            assert ran.code == 0, (limits, ran.err)
            assert await site.served() > before, limits

        assert_same("fetched", fetches(await site.hits()).elements(), expected.fetched)
        found = [tuple(item[field] for field in FIELDS) for item in records(folder / "items.jsonl")]
        assert_same("items", found, [tuple(item[field] for field in FIELDS) for item in expected.items])
        again = runs.crawl(*command[:-1], "--any-host")
        assert again.out.startswith("Nothing to do: crawl graph is complete"), again
    assert shoal("verify", "--deep", "--store", store, cwd=folder).code == 0


def test_the_day_of_a_new_user(store: str, folder: Path, site: Server) -> None:
    runs = Runs(store, folder)
    command = (site.start, "--item", "h1=h1", "--out", "o.jsonl")

    first = runs.crawl(*command, "--depth", "1", "--follow", "/a/")
    assert first.out.startswith("Finished: 2 pages"), first
    again = runs.crawl(*command, "--depth", "1", "--follow", "/a/")
    assert again.out.startswith("Nothing to do: crawl 127.0.0.1:"), again
    assert "shoal export --crawl" in again.out
    assert again.code == 0

    deeper = runs.crawl(*command, "--depth", "2", "--follow", "/a/")
    assert "is extended: wider limits (--depth)" in deeper.err
    assert runs.headings() == ["A 1", "A 2", "Home"]
    both = runs.crawl(*command, "--follow", "/a/|/b/")
    assert "is extended" in both.err, both
    assert runs.headings() == ["A 1", "A 2", "A 3", "B 1", "Home"]
    assert sorted(site.asked) == sorted(PAGES)

    added = runs.crawl(*command, "--follow", "/a/|/b/", "--out", "p.csv")
    assert "p.csv is new" in added.out, added
    assert not (folder / "p.csv").exists()
    for other in (
        (site.start, "--item", "title=h1", "--out", "o.jsonl", "--follow", "/a/|/b/"),
        (site.start + "b/1", "--item", "h1=h1", "--out", "o.jsonl", "--follow", "/a/|/b/"),
        (*command, "--follow", "/c/"),
    ):
        refused = runs.crawl(*other)
        assert refused.code == 1, other
        complaint = refused.err.splitlines()[-1]
        assert "this is another command" in complaint
        assert "--crawl NAME" in complaint
        assert "--fresh" in complaint
    assert sorted(site.asked) == sorted(PAGES)


def test_start_urls_that_never_succeeded_are_tried_when_the_command_is_typed_again(
    store: str, folder: Path
) -> None:
    runs, port = Runs(store, folder), free_port()
    command = (f"http://127.0.0.1:{port}/", "--item", "h1=h1", "--out", "o.jsonl")
    refused = shoal("crawl", *command, "--store", store, cwd=folder, env=NO_RETRIES)
    assert refused.code == 10
    assert "--allow-private" in refused.err

    down = runs.crawl(*command)
    assert down.code == 10, down
    assert "connect" in down.err

    with Server(port) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        up = runs.crawl(*command)
        assert up.code == 0, up.err
        assert runs.headings() == ["A 1", "A 2", "A 3", "B 1", "Home"]
        server.shutdown()


def test_an_edited_spider_is_noticed(store: str, folder: Path, site: Server) -> None:
    runs = Runs(store, folder)
    spider = folder / "shop.py"
    text = f'''
import shoal

spider = shoal.Spider("shop", "{site.start}")

@spider.page()
def page(page):
    yield {{"h1": page.css("h1::text").get()}}
    yield page.links()
'''
    spider.write_text(text)
    assert runs.crawl("shop.py", "--out", "o.jsonl").code == 0
    spider.write_text(text.replace("h1::text", "title::text"))
    ran = runs.crawl("shop.py", "--out", "o.jsonl")
    assert "the spider has changed since 5 pages: shoal reparse shop.py --crawl shop" in ran.out, ran


COMMAND = ("--item", "h1=h1", "--out", "o.jsonl", "--out", "o.csv", "--out", "o.sqlite", "--out", "o.parquet")


def held(folder: Path) -> dict[str, bytes]:
    """Return what the outputs hold."""
    files = [path for name in ("o.jsonl", "o.csv", "o.sqlite", "o.parquet") for path in (folder / name,)]
    parts = [part for path in files for part in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return {str(part.relative_to(folder)): part.read_bytes() for part in parts if part.is_file()}


def test_again_replaces_outputs_only_after_a_run_that_has_succeeded(
    store: str, folder: Path, site: Server
) -> None:
    runs = Runs(store, folder)
    assert runs.crawl(site.start, *COMMAND, "--again").code == 0  # the first night
    yesterday = held(folder)
    assert len(yesterday) >= 4

    site.down = True
    for _ in range(2):
        down = runs.crawl(site.start, *COMMAND, "--again")
        assert down.code == 8, down
        assert "no page was fetched" in down.err
        assert "this run has failed, and the last one's items stay" in down.out
        assert held(folder) == yesterday

    site.down = False
    site.pages["/a/3"] = "<h1>A 3, new edition</h1>"
    site.asked.clear()
    up = runs.crawl(site.start, *COMMAND, "--again")
    assert up.code == 0, up
    assert sorted(site.asked) == sorted(PAGES)
    assert runs.headings() == ["A 1", "A 2", "A 3, new edition", "B 1", "Home"]
    assert set(held(folder)) == set(yesterday)
    assert not [path for path in folder.iterdir() if path.name.startswith(".o")]
    assert shoal("verify", "--store", store, cwd=folder).code == 0
    assert runs.crawl(site.start, *COMMAND).out.startswith("Nothing to do")


def test_again_resumes_an_interrupted_generation_beside_the_outputs(folder: Path, site: Server) -> None:
    runs = Runs("store", folder)
    assert runs.crawl(site.start, *COMMAND).code == 0
    yesterday = held(folder)
    command = (site.start, *COMMAND, "--again")
    with started("crawl", *command, "--store", "store", "--allow-private", "--rate", "2", cwd=folder) as slow:
        site.asked.clear()
        deadline = time.monotonic() + 60
        while len(site.asked) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        slow.send_signal(signal.SIGKILL)
        slow.wait()
    assert held(folder) == yesterday
    asked = len(site.asked)

    resumed = runs.crawl(*command)
    assert resumed.code == 0, resumed
    assert len(site.asked) - asked < len(PAGES)
    assert runs.headings() == ["A 1", "A 2", "A 3", "B 1", "Home"]


def test_files_that_shoal_did_not_write_are_replaced_only_with_yes(
    store: str, folder: Path, site: Server
) -> None:
    runs = Runs(store, folder)
    (folder / "o.jsonl").write_text("mine\n")
    command = (site.start, "--item", "h1=h1", "--out", "o.jsonl")
    for flag in ("--fresh", "--again"):
        refused = runs.crawl(*command, flag)
        assert refused.code == 1
        assert "add --yes to replace it" in refused.err
    assert (folder / "o.jsonl").read_text() == "mine\n"
    assert runs.crawl(*command, "--fresh", "--yes").code == 0
    assert len(runs.headings()) == len(PAGES)


def test_a_dry_run_says_what_would_happen_and_does_nothing(store: str, folder: Path, site: Server) -> None:
    runs = Runs(store, folder)
    command = (site.start, "--item", "h1=h1", "--out", "o.jsonl", "--depth", "1")
    new = runs.crawl(*command, "--dry-run")
    assert (new.code, site.asked) == (0, [])
    assert new.out.startswith("Would begin: crawl ")
    assert not (folder / "store").exists()
    assert runs.crawl(*command).code == 0
    for flags, told in (
        (("--depth", "2"), "Would extend: "),
        (("--depth", "1"), "Nothing to do: "),
        (("--depth", "1", "--again"), "Would begin a new generation: "),
    ):
        ran = runs.crawl(*command[:-2], *flags, "--dry-run")
        assert ran.out.startswith(told), ran
    planned = shoal("plan", site.start, "--store", store, cwd=folder)
    assert (planned.code, planned.out.partition(":")[0]) == (1, "Would refuse"), planned
    other = runs.crawl(site.start, "--item", "x=h1", "--out", "o.jsonl", "--dry-run")
    assert (other.code, other.out.partition(":")[0]) == (1, "Would refuse")
    assert "--crawl NAME" in other.out
    assert sorted(site.asked) == ["/", "/a/1", "/b/1"]


@pytest.mark.parametrize("kind", ["gone", "robots"])
def test_a_start_url_that_is_gone_or_disallowed_is_a_failure_and_tried_again(
    store: str, folder: Path, site: Server, kind: str
) -> None:
    runs = Runs(store, folder)
    command = (site.start, "--item", "h1=h1", "--out", "o.jsonl")
    if kind == "gone":
        site.pages["/"] = ""
    else:
        site.pages["/robots.txt"] = "User-agent: *\nDisallow: /"
    first = runs.crawl(*command)
    assert first.code == 10, first
    assert "no page was fetched" in first.err
    site.pages["/"], site.pages["/robots.txt"] = PAGES["/"], ""
    again = runs.crawl(*command, *(("--no-robots",) if kind == "robots" else ()))
    assert again.code == 0, again
    assert len(runs.headings()) == len(PAGES)


def test_without_robots_txt_exactly_the_pages_that_it_disallowed_are_fetched(
    store: str, folder: Path, site: Server
) -> None:
    runs = Runs(store, folder)
    command = (site.start, site.start + "b/1", "--item", "h1=h1", "--out", "o.jsonl")
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /a/2\nDisallow: /b/"
    first = runs.crawl(*command)
    assert (first.code, runs.headings()) == (0, ["A 1", "Home"]), first
    assert "skipped    robots 2" in first.out

    site.asked.clear()
    wider = runs.crawl(*command, "--no-robots")
    assert wider.code == 0, wider
    assert "is extended: wider limits (--no-robots)" in wider.err
    assert "skipped" not in wider.out
    assert sorted(site.asked) == ["/a/2", "/a/3", "/b/1"]
    assert runs.headings() == ["A 1", "A 2", "A 3", "B 1", "Home"]

    again = runs.crawl(*command, "--no-robots")
    assert again.out.startswith("Nothing to do"), again
    assert len(site.asked) == 3
    verified = shoal("verify", "--deep", "--store", store, cwd=folder)
    assert verified.code == 0, verified


def test_pages_that_the_spider_fails_on_count_for_the_limit_of_pages(
    store: str, folder: Path, site: Server
) -> None:
    runs = Runs(store, folder)
    (folder / "broken.py").write_text(
        f"""
import shoal

spider = shoal.Spider("broken", start="{site.start}")

@spider.page("/$")
def home(page):
    yield page.links()

@spider.page()
def item(page):
    yield page.links()
    raise ValueError("no price")
"""
    )
    ran = runs.crawl("broken.py", "--max-pages", "2", "--per-host", "1")
    assert ran.out.startswith("Stopped at --max-pages"), ran
    assert len(site.asked) == 2
    again = runs.crawl("broken.py", "--max-pages", "2", "--per-host", "1")
    assert again.out.startswith("Nothing to do: crawl broken has reached --max-pages 2"), again
    more = runs.crawl("broken.py", "--per-host", "1")
    assert more.out.startswith("Finished"), more
    assert sorted(site.asked) == ["/", "/a/1", "/b/1"]


def test_proxies_of_the_environment_are_said_to_be_ignored(folder: Path, site: Server) -> None:
    env = {**NO_RETRIES, "HTTPS_PROXY": "http://127.0.0.1:1"}
    ran = shoal("crawl", site.start, *QUICK, "--store", "store", cwd=folder, env=env)
    assert ran.code == 0
    assert ran.err.count("proxy.ignored") == 1
    assert "HTTPS_PROXY" in ran.err


def test_ctrl_c_during_the_imports_ends_without_a_traceback(folder: Path) -> None:
    interrupt = """
import builtins, shoal.__main__
real = builtins.__import__
def imported(name, *rest, **more):
    if name.startswith("typer"):
        raise KeyboardInterrupt
    return real(name, *rest, **more)
builtins.__import__ = imported
shoal.__main__.main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", interrupt], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (3, "")
