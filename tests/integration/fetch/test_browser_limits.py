"""What one page may use of a browser: every limit has a failure class, and costs no other page anything."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest
from tests.integration.fetch.test_browser import running_in
from tests.integration.fetch.test_egress import open_client, open_egress
from tests.integration.fetch.test_exits import Names
from tests.servers.process import program
from tests.site.raw import Peer, RawServer, answer, raw_server

from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.errors import Misconfigured
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response
from shoal.model.rendering import Rendering, WaitFor
from shoal.model.settings import BrowserSettings

HTML = (("Content-Type", "text/html; charset=iso-8859-1"),)
MIB = 1 << 20
HEAVY = """<h1>heavy</h1><script>
const kept = [];
setInterval(() => { const a = new Uint8Array(16 << 20); a.fill(1); kept.push(a); fetch('/fine') }, 50);
</script>"""
WINDOWS = "<script>for (let n = 0; n < 40; n++) window.open('/fine?' + n)</script>"
BUSY = """<h1>busy</h1><script>
const code = URL.createObjectURL(new Blob(["while (true);"]));
for (let n = 0; n < 500; n++) new Worker(code);
setInterval(() => fetch('/fine'), 50);
</script>"""
MANY = "<script>document.write('<i></i>'.repeat(3000))</script>"
FINE = "<title>fine</title><h1>fine</h1>"
PAGES = {
    "/fine": FINE,
    "/heavy": HEAVY,
    "/hasty": HEAVY.replace("16 << 20", "64 << 20").replace("50)", "0)"),
    "/windows": WINDOWS,
    "/many": MANY,
    "/busy": BUSY,
    "/reloads": "<h1>again</h1><script>location.reload()</script>",
    "/slow": "<h1>slow</h1><script>setInterval(() => fetch('/fine'), 50)</script>",
    "/cookies": "<script>document.cookie = 'js=1; path=/'</script>",
    "/hides": "<form><input name=getElementsByTagName><input name=querySelector></form>"
    "<script>Document.prototype.getElementsByTagName = () => 7</script>",
}


asked: set[str] = set()  # paths that are answered when they are asked for a second time


async def site(peer: Peer) -> None:
    path = (await peer.request()).split(b" ", 2)[1].decode().partition("?")[0]
    if path == "/endless":
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>endless</h1>")
        while True:
            await peer.send(b"x" * 65_536)
    elif path.startswith("/held") and path not in asked:
        asked.add(path)
        await asyncio.sleep(60)
    elif path.startswith("/held"):
        await peer.send(answer(FINE.encode(), headers=HTML))
    elif path == "/silent":
        await asyncio.sleep(60)
    elif path == "/file":
        headers = (("Content-Type", "application/zip"), ("Content-Disposition", "attachment; filename=a.zip"))
        await peer.send(answer(b"PK", headers=headers))
    elif path == "/json":
        await peer.send(answer(b'{"a": 1}', headers=(("Content-Type", "application/json"),)))
    elif path == "/empty":
        await peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
    elif path in PAGES:
        await peer.send(answer(PAGES[path].encode("latin-1"), headers=HTML))
    else:
        await peer.send(answer(b"", status=404))


@asynccontextmanager
async def browser_at(**limits: float | str) -> AsyncIterator[tuple[BrowserClient, RawServer]]:
    session = bool(limits.pop("session", False))
    program("chromium-headless-shell", "chromium-headless-shell")
    guard = Guard(address_ranges(["127.0.0.1/32"]))
    settings = BrowserSettings(**{"page_s": 20.0, **limits})  # type: ignore[arg-type]
    async with (
        raw_server(site, host="127.0.0.1") as server,
        BrowserPool.open(settings) as pool,
        open_egress(guard=guard, passes=pool.passes) as egress,
        open_client() as plain,
        BrowserClient.open(pool, egress, Names(), guard, plain=plain, session=session) as client,
    ):
        yield client, server


async def fetch(client: BrowserClient, server: RawServer, path: str) -> Response | Failure | NotSent:
    return await client.fetch(server.url(path), limits=FetchLimits())


async def page(client: BrowserClient, server: RawServer, path: str = "/fine") -> Response:
    answered = await fetch(client, server, path)
    assert isinstance(answered, Response), answered
    return answered


@pytest.mark.parametrize(
    ("path", "limits", "failure_class", "setting"),
    [
        ("/windows", {}, FailureClass.POISON, "browser.popups"),
        ("/busy", {"workers": 4}, FailureClass.POISON, "browser.workers"),
        ("/many", {"nodes": 1000}, FailureClass.TOO_LARGE, "browser.nodes"),
        ("/many", {"dom_bytes": 1000}, FailureClass.TOO_LARGE, "browser.dom_bytes"),
        ("/endless", {"wire_bytes": MIB}, FailureClass.TOO_LARGE, "bytes received"),
        ("/silent", {"page_s": 2.0}, FailureClass.TIMEOUT, "browser.page_s"),
        ("/heavy", {"memory_bytes": 256 * MIB}, FailureClass.RENDERER_CRASH, "browser.memory_bytes"),
    ],
)
async def test_a_page_beyond_a_limit_fails_with_its_class_and_no_other_does(
    path: str, limits: dict[str, float], failure_class: FailureClass, setting: str
) -> None:
    async with browser_at(**limits) as (client, server):
        failed, beside = await asyncio.gather(fetch(client, server, path), page(client, server))
        assert isinstance(failed, Failure), failed
        assert (failed.failure_class, setting in failed.reason) == (failure_class, True), failed
        assert b"<h1>fine</h1>" in beside.body
        assert b"<h1>fine</h1>" in (await page(client, server)).body


@pytest.mark.alone("a watch that gets no turn for a tenth of a second sees hundreds of MiB more")
async def test_a_page_that_fills_memory_as_fast_as_it_can_is_ended_close_to_the_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with browser_at(memory_bytes=256 * MIB) as (client, server):
        failed = await fetch(client, server, "/hasty")
        assert isinstance(failed, Failure), failed
        assert failed.failure_class is FailureClass.RENDERER_CRASH
    killed = [record.memory_mib for record in caplog.records if record.message == "renderer.killed"]  # type: ignore[attr-defined]
    assert len(killed) == 1
    assert 256 <= killed[0] < 256 + 512  # most often within 30 MiB


async def test_a_page_that_reloads_itself_is_captured_after_some_times() -> None:
    async with browser_at(navigations=4) as (client, server):
        captured = await page(client, server, "/reloads")
        assert captured.rendered is not None
        assert captured.rendered.partial == ("navigations",)
        assert b"<h1>again</h1>" in captured.body
        assert len(server.requests) <= 7


async def test_what_is_not_html_is_kept_as_it_is() -> None:
    async with browser_at() as (client, server):
        file = await page(client, server, "/file")
        assert (file.body, file.rendered, file.header("content-type")) == (b"PK", None, "application/zip")
        data = await page(client, server, "/json")
        assert (data.body, data.rendered) == (b'{"a": 1}', None)
        assert (await page(client, server, "/empty")).status == 204
        missing = await page(client, server, "/nowhere")
        assert (missing.status, missing.body) == (404, b"")


async def test_the_main_response_is_text_in_utf_8_and_says_what_it_was() -> None:
    PAGES["/latin"] = "<h1>gr\u00fcn</h1>"
    async with browser_at() as (client, server):
        latin = await page(client, server, "/latin")
        assert latin.rendered is not None
        assert "gr\u00fcn".encode() in latin.wire
        assert "gr\u00fcn".encode() in latin.body
        assert latin.header("content-type") == "text/html; charset=utf-8"
        assert ("content-type", "text/html; charset=iso-8859-1") in latin.rendered.replaced


async def test_cookies_of_scripts_are_returned_and_a_page_cannot_hide_itself() -> None:
    async with browser_at() as (client, server):
        assert [one.partition(";")[0] for one in (await page(client, server, "/cookies")).set_cookies] == [
            "js=1"
        ]
        assert b"querySelector" in (await page(client, server, "/hides")).body


async def test_B04_a_name_that_changes_after_the_page_is_refused() -> None:
    """The canary is at 127.0.0.2, where the name leads from the second connection on."""
    program("chromium-headless-shell", "chromium-headless-shell")
    guard = Guard(address_ranges(["127.0.0.1/32"]))
    PAGES["/rebinds"] = (
        "<h1>waits</h1><script>setTimeout(() => fetch('/fine').then(answer => answer.ok, () => false)"
        ".then(read => document.title = read ? 'read' : 'refused'), 200)</script>"
    )
    until_answered = Rendering(actions=(WaitFor(script="document.title !== ''"),))
    names = Rebinding()
    async with (
        raw_server(site, host="127.0.0.1") as server,
        raw_server(site, host="127.0.0.2") as canary,
        BrowserPool.open(BrowserSettings(page_s=20.0)) as pool,
        open_egress(names, guard, pool.passes) as egress,
        BrowserClient.open(pool, egress, names, guard, rendering=until_answered) as client,
    ):
        url = server.url("/rebinds", host="name.test")
        answered = await client.fetch(url, limits=FetchLimits())
        assert isinstance(answered, Response), answered
        assert b"<title>refused</title>" in answered.body
        assert (len(server.requests), canary.connections) == (1, 0)


class Rebinding(Names):
    """Answers with an allowed address twice, for the check and for the page itself, and then with another."""

    async def resolve(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        return ("127.0.0.1" if len(self.asked) <= 2 else "127.0.0.2",)


def renderers(client: BrowserClient) -> list[int]:
    """Return the renderers of all browsers, by their command lines."""
    groups = {browser.chromium.pid for browser in client._pool.browsers}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(") ")[2].split()[3])  # of its session
            if group in groups and "--type=renderer" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def kill_during(work: Awaitable[object], kill: Callable[[], bool]) -> object:
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(_run(work))
        await until(kill)
    return task.result()


async def _run(work: Awaitable[object]) -> object:
    return await work


async def test_a_crashed_renderer_costs_its_page_and_nothing_else() -> None:
    async with browser_at() as (client, server):
        await page(client, server)
        [first] = client._pool.browsers

        def kill() -> bool:
            if not server.requests or b"/slow" not in server.requests[-1]:
                return False
            running = renderers(client)
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            return bool(running)

        failed = await kill_during(fetch(client, server, "/slow"), kill)
        assert isinstance(failed, Failure)
        assert failed.failure_class is FailureClass.RENDERER_CRASH
        assert b"<h1>fine</h1>" in (await page(client, server)).body
        assert client._pool.browsers == (first,)  # the browser runs on


async def test_a_browser_that_ends_gives_its_pages_back_and_leaves_no_process() -> None:
    async with browser_at() as (client, server):
        await page(client, server)
        [first] = client._pool.browsers
        session = first.chromium.pid

        def kill() -> bool:
            if not server.requests or b"/slow" not in server.requests[-1]:
                return False
            for pid in children_of(session):
                os.kill(pid, signal.SIGKILL)
            return True

        failed = await kill_during(fetch(client, server, "/slow"), kill)
        assert isinstance(failed, Failure)
        assert failed.failure_class is FailureClass.HOLDER_LOST
        assert b"<h1>fine</h1>" in (await page(client, server)).body
        assert client._pool.browsers[-1] is not first
        await until(lambda: not running_in({session}) and not zombies_of(session))


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def zombies_of(session: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = stat.read_text().rpartition(") ")[2].split()[:4]
        except OSError:
            continue
        if int(own) == session and state == "Z":
            found.append(stat.parent.name)
    return found


@pytest.mark.parametrize(
    ("limits", "why"),
    [({"browser_pages": 2}, "2 pages"), ({"processes": 1}, "processes")],
)
async def test_a_browser_is_replaced(limits: dict[str, float], why: str) -> None:
    async with browser_at(**limits) as (client, server):
        await page(client, server)
        [first] = client._pool.browsers
        if "processes" in limits:
            await first.watch()
        else:
            await page(client, server)
        assert why in first.replace
        await page(client, server)
        await until(lambda: first not in client._pool.browsers)
        await until(lambda: not running_in({first.chromium.pid}))


async def test_pages_of_a_browser_that_was_lost_are_rendered_once_more_each_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    asked.clear()
    async with browser_at() as (client, server):
        await page(client, server)
        [browser] = client._pool.browsers
        pages = [asyncio.create_task(page(client, server, path)) for path in ("/held/1", "/held/2")]
        await until(lambda: len(asked) == 2)
        os.killpg(browser.chromium.pid, signal.SIGKILL)
        for one in pages:
            assert b"<h1>fine</h1>" in (await one).body
        assert [record.message for record in caplog.records].count("page.rendered_alone") == 2

        [browser] = [one for one in client._pool.browsers if not one.has_ended]
        lost = asyncio.create_task(fetch(client, server, "/silent"))
        await until(lambda: len(browser._busy) == 1)
        os.killpg(browser.chromium.pid, signal.SIGKILL)
        failed = await lost
        assert isinstance(failed, Failure)
        assert failed.failure_class is FailureClass.HOLDER_LOST, "no other page was open: it may be its fault"


async def test_contexts_are_kept_for_the_next_page_of_a_host_where_the_crawl_asks_for_a_session() -> None:
    async with browser_at(session=True, context_pages=2) as (client, server):
        for _ in range(3):
            await page(client, server)
        [browser] = client._pool.browsers
        assert [context.pages for context in browser._idle] == [1]


def broken_program(folder: Path) -> Path:
    """Write a program that ends at once, and that every user may start."""
    broken = folder / "chromium-headless-shell"
    broken.write_text("#!/bin/sh\nexit 1\n")
    for path in (
        broken,
        folder,
        *(one for one in folder.parents if one.name.startswith(("pytest", "popen"))),
    ):
        path.chmod(0o755)
    return broken


async def test_a_browser_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    once = await asyncio.to_thread(broken_program, tmp_path)
    real, mark = program("chromium-headless-shell", "chromium-headless-shell"), tmp_path / "started"
    once.write_text(f'#!/bin/sh\n[ -e {mark} ] || {{ touch {mark}; kill -9 $$; }}\nexec {real} "$@"\n')
    await asyncio.to_thread(tmp_path.chmod, 0o777)
    async with browser_at(path=str(once)) as (client, server):
        assert b"<h1>fine</h1>" in (await page(client, server)).body
    assert mark.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "No usable sandbox! See",
            r"does not start\. .*user namespaces.*browser\.sandbox.*It said: .*No usable",
        ),
        ("Cannot open the display", r"does not start\. It said: first line \| Cannot open the display$"),
    ],
)
async def test_a_browser_that_does_not_start_is_quoted_with_advice_for_a_known_cause_alone(
    words: str, said: str, tmp_path: Path
) -> None:
    broken = await asyncio.to_thread(broken_program, tmp_path)
    broken.write_text(f"#!/bin/sh\necho first line >&2\necho '{words}' >&2\nexit 1\n")
    async with BrowserPool.open(BrowserSettings(path=str(broken))) as pool, open_egress() as egress:
        client = BrowserClient(pool, egress, Names(), Guard(address_ranges(["127.0.0.1/32"])))
        with pytest.raises(Misconfigured, match=said):
            await client.fetch("http://127.0.0.1:8080/", limits=FetchLimits())


async def test_a_browser_whose_network_service_was_killed_costs_no_page_its_answer() -> None:
    """The service forgets the pass of the egress with it: what the egress answers then is no page of the site."""
    async with browser_at() as (client, server):
        await page(client, server)
        [browser] = client._pool.browsers
        assert kill_children(browser.chromium.pid, "--utility-sub-type=network.mojom.NetworkService") == 1
        answered = await fetch(client, server, "/fine")
        if isinstance(answered, Failure):
            assert answered.failure_class is FailureClass.HOLDER_LOST, answered
        else:
            assert isinstance(answered, Response)
            assert answered.status == 200
        assert b"<h1>fine</h1>" in (await page(client, server)).body


def kill_children(pid: int, argument: str) -> int:
    """Kill the children of a process that have an argument; return how many that were."""
    killed = 0
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if argument in process.cmdline():
                process.kill()
                killed += 1
    return killed
