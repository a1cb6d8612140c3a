"""Pages that need a browser: rendered in a folder and in a fleet, archived beside the main response."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.e2e.command import HASTY, QUICK, records, shoal
from tests.fleet_crawl import Fleet
from tests.servers.process import program
from tests.servers.proxies import Tinyproxy, proxy_server
from tests.servers.redis import valkey
from tests.site.server import ServedSite
from tests.site.written import Sheet, serving_written

SHELL = """<title>shell</title><link rel=icon href="data:,"><div id=root></div><script>
document.cookie = 'seen=' + location.pathname.slice(1);
console.error('from the page');
fetch('/api').then(r => r.text()).then(t =>
  document.getElementById('root').innerHTML = '<h1>' + t.replace('<!doctype html>', '') + '</h1>')
</script>"""
CLICK = """<button>more</button><ul></ul><script>
document.querySelector('button').onclick = () => setTimeout(() => {
  document.querySelector('ul').innerHTML = '<li>one<li>two'; }, 100)</script>"""
SCROLL = """<ol></ol><script>
let n = 0;
function grow() { for (let i = 0; n < 40 && i < 20; i++, n++) {
  const one = document.createElement('li'); one.textContent = n; one.style.height = '200px';
  document.querySelector('ol').append(one); } }
grow(); addEventListener('scroll', grow);</script>"""
SHEETS = {
    "/": Sheet('<a href="/plain">p</a><a class=app href="/shell">s</a>'),
    "/plain": Sheet("<h1>plain</h1>"),
    "/shell": Sheet(SHELL),
    "/api": Sheet("from the api"),
    "/click": Sheet(CLICK),
    "/scroll": Sheet(SCROLL),
    "/moved": Sheet("", 302, [("Location", "/shell?moved")]),
    "/shell?moved": Sheet(SHELL),
    "/goes": Sheet("<h1>goes</h1><script>location = '/landed'</script>"),
    "/landed": Sheet("<h1>landed</h1>"),
    "/robots.txt": Sheet("", 404),
}
SPIDER = """
import shoal
from shoal import Click, Rendering, Request, ScrollToEnd, WaitFor

spider = shoal.Spider("apps")


@spider.page(r"/$")
def front(page):
    yield page.links("a:not(.app)")
    yield page.links(".app", render=True)
    click = Rendering(actions=(Click("button"), WaitFor("li")), screenshot=True, pdf=True)
    yield Request(page.url + "click", render=click)
    yield Request(page.url + "scroll", render=Rendering(actions=(ScrollToEnd(pause_ms=100),)))
    yield Request(page.url + "moved", render=True)
    yield Request(page.url + "goes", render=True)


@spider.page()
def leaf(page):
    yield {
        "path": page.url.split("/", 3)[3],
        "title": page.css("h1::text").get(),
        "items": len(page.css("li")),
        "rendered": page.rendered,
        "png": (page.screenshot or b"")[1:4].decode(),
        "pdf": (page.pdf or b"")[:4].decode(),
        "console": list(page.console),
    }
"""
APP = {"title": "from the api", "items": 0, "rendered": True, "png": "", "pdf": "",
       "console": ["console.error: from the page"]}  # fmt: skip
PLAIN = {"items": 0, "rendered": False, "png": "", "pdf": "", "console": []}
ITEMS = [
    {
        "path": "click",
        "title": None,
        "items": 2,
        "rendered": True,
        "png": "PNG",
        "pdf": "%PDF",
        "console": [],
    },
    {"path": "goes", **PLAIN, "title": "goes", "rendered": True},
    {"path": "landed", **PLAIN, "title": "landed", "rendered": True},
    {"path": "plain", **PLAIN, "title": "plain"},
    {"path": "scroll", **PLAIN, "title": None, "items": 40, "rendered": True},
    {"path": "shell", **APP},
    {"path": "shell?moved", **APP},
]


@pytest.fixture
async def site() -> AsyncIterator[ServedSite]:
    program("chromium-headless-shell", "chromium-headless-shell")
    async with serving_written(SHEETS) as site:
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "apps.py").write_text(SPIDER)
    return folder


def archived(folder: Path) -> bytes:
    return b"".join(gzip.decompress(path.read_bytes()) for path in folder.rglob("*.warc.gz"))


def items(path: Path) -> list[dict[str, object]]:
    return sorted(records(path), key=lambda item: str(item["path"]))


async def test_a_crawl_renders_what_asks_for_it_and_archives_both(folder: Path, site: ServedSite) -> None:
    start = f"http://{site.authorities[0]}/"
    ran = shoal("crawl", "apps.py", start, *QUICK, "--out", "o.jsonl", "--json", cwd=folder, env=HASTY)
    assert (ran.code, ran.json["counts"]["dead"]) == (0, 0), ran.err
    assert items(folder / "o.jsonl") == ITEMS

    # The archive has the main response and, beside it, the DOM that the parser has read.
    warc = archived(folder)
    of_shell = [
        part
        for part in warc.split(b"WARC/1.1\r\n")
        if b"WARC-Target-URI: %bshell\r\n" % start.encode() in part
    ]
    kinds = [part.partition(b"\r\n")[0] for part in of_shell]
    assert kinds[:3] == [b"WARC-Type: response", b"WARC-Type: conversion", b"WARC-Type: request"]
    assert b"<div id=root></div>" in of_shell[0]
    assert b"<h1>from the api</h1>" in of_shell[1]
    assert b"from the page" in of_shell[1]

    again = shoal("reparse", "apps.py", "--commit", "--out", "again.jsonl", "--json", cwd=folder)
    assert again.code == 0, again.err
    assert items(folder / "again.jsonl") == ITEMS
    assert shoal("verify", "--deep", cwd=folder).code == 0
    exported = shoal("export", "--out", "pages.warc.gz", "--json", cwd=folder)
    assert exported.json["pages"] == ran.json["counts"]["done"], exported.err
    copied = gzip.decompress((folder / "pages.warc.gz").read_bytes())
    assert copied.count(b"WARC-Type: conversion") == warc.count(b"WARC-Type: conversion") == 8
    [traced] = shoal("trace", f"{start}click", "--json", cwd=folder).json["traces"]
    assert traced["rendered"]["screenshot_bytes"] > 100
    assert traced["rendered"]["pdf_bytes"] > 100


async def test_a_whole_crawl_is_rendered_with_one_flag(folder: Path, site: ServedSite) -> None:
    start = f"http://{site.authorities[0]}/"
    item = ("--item", "title=h1")
    ran = shoal(
        "crawl", start, "--render", *item, *QUICK, "--out", "o.jsonl", "--json", cwd=folder, env=HASTY
    )
    assert ran.code == 0, ran.err
    assert {record["title"] for record in records(folder / "o.jsonl")} == {None, "plain", "from the api"}


async def test_the_example_renders_what_needs_it(folder: Path) -> None:
    program("chromium-headless-shell", "chromium-headless-shell")
    add = "const one = document.createElement('div'); one.className = 'quote'; one.style.height = '300px';"
    quote = '<span class="text">A</span><small class="author">B</small>'
    sheets = {
        "/": Sheet("<h1>front</h1>"),
        "/js/": Sheet(f"<body><script>{add} one.innerHTML = '{quote}'; document.body.append(one)</script>"),
        "/scroll": Sheet(
            f"<body><script>let n = 0; function more() {{ for (let i = 0; n < 20 && i < 10; i++, n++) {{"
            f" {add} document.body.append(one) }} }} more(); addEventListener('scroll', more)</script>"
        ),
    }
    example = str(Path(__file__).parents[2] / "examples" / "rendered.py")
    async with serving_written(sheets) as site:
        start = f"http://{site.authorities[0]}/"
        ran = shoal("crawl", example, start, *QUICK, "--out", "o.jsonl", "--json", cwd=folder, env=HASTY)
        assert ran.code == 0, ran.err
    found = {next(iter(record)): record for record in records(folder / "o.jsonl")}
    assert found["text"] == {"text": "A", "author": "B"}
    assert found["quotes"]["quotes"] == 20
    assert found["quotes"]["screenshot_bytes"] > 100


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_rendered_pages_leave_through_an_exit_that_is_charged_for_all_they_load(
    kind: str, tmp_path: Path, site: ServedSite
) -> None:
    url = f"http://{site.authorities[0]}/shell"
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxy_server(Tinyproxy, tmp_path / "proxy"))
        store = "data"
        if kind == "fleet":
            store = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        exits = tmp_path / "exits.txt"
        await asyncio.to_thread(exits.write_text, f"{proxy.line} name=one")
        await asyncio.to_thread(exits.chmod, 0o600)
        arguments = ("crawl", url, "--render", "--item", "title=h1", "--proxy", "exits.txt", "--store", store)
        ran = await asyncio.to_thread(shoal, *arguments, *QUICK, "--out", "o.jsonl", cwd=tmp_path, env=HASTY)
        assert ran.code == 0, ran.err
        assert [record["title"] for record in records(tmp_path / "o.jsonl")] == ["from the api"]
        [charged] = shoal("proxy", "list", "--store", store, "--json", cwd=tmp_path).json["exits"]
        log = await asyncio.to_thread(proxy.log)
    sent = len(SHELL) + len(SHEETS["/api"].body)
    assert charged["name"] == "one"
    assert sent < charged["bytes"] < sent + 10_000, "bodies, heads, and the words with the proxy"
    assert any(site.authorities[0] in line for line in log), "the proxy has seen it"


@pytest.mark.parametrize("roles", [("fetch,parse,sink",), ("fetch", "parse,sink")], ids=["one", "two"])
async def test_in_a_fleet_browser_workers_alone_take_browser_requests(
    tmp_path: Path, folder: Path, site: ServedSite, roles: Sequence[str]
) -> None:
    """Two workers with a browser beside plain ones; also where another worker parses."""
    start = f"http://{site.authorities[0]}/"
    async with valkey(tmp_path / "valkey") as server:
        fleet = Fleet(
            server.dsn, folder, settings={**HASTY, "SHOAL_ARCHIVE_LOCATION": str(tmp_path / "archive")}
        )
        submitted = await asyncio.to_thread(fleet.submit, start, spider=folder / "apps.py")
        assert submitted.code == 0, submitted.err
        for role in roles:
            fleet.start("--roles", role, "--allow-output", str(tmp_path))
        await until_browser_requests_wait(fleet)
        browser_roles = "browser" if len(roles) > 1 else "browser,parse"
        workers = [
            fleet.start("--roles", browser_roles, "--until-done", "--allow-output", str(tmp_path))
            for _ in range(2)
        ]
        assert [await fleet.ended(worker) for worker in workers] == [0, 0]
        await until_written(folder)
        assert items(folder / "items.jsonl") == ITEMS
        for worker in fleet.workers:
            worker.terminate()
        for worker in fleet.workers:
            await fleet.ended(worker)
        pools = await asyncio.to_thread(pools_of, fleet, f"{start}shell")
        assert pools == {"browser"}


async def until_browser_requests_wait(fleet: Fleet) -> None:
    wanted = "apps has 5 requests in the pool browser, which no running worker serves"
    async with asyncio.timeout(60):
        while True:
            status = await asyncio.to_thread(shoal, "status", "--json", cwd=fleet.folder, env=fleet.env)
            found = [one["text"] for one in status.json["bottlenecks"]]
            if any(text.startswith(wanted) and "shoal worker --pools browser" in text for text in found):
                return
            await asyncio.sleep(0.2)


def pools_of(fleet: Fleet, url: str) -> set[str]:
    [traced] = shoal("trace", url, "--json", cwd=fleet.folder, env=fleet.env).json["traces"]
    return {tried["pool"] for tried in traced["attempts"]}


async def until_written(folder: Path) -> None:
    async with asyncio.timeout(60):
        while not (folder / "items.jsonl").exists() or len(items(folder / "items.jsonl")) < len(ITEMS):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
