"""Pages in a real Chromium: rendered, bounded, and with no way out but the egress."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.integration.fetch.test_egress import open_egress
from tests.integration.fetch.test_exits import Names
from tests.servers.process import program

from shoal.fetch.browser.chromium import find_program
from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.errors import Misconfigured
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.rendering import Action, Click, Fill, Rendering, ScrollToEnd, WaitFor, refuse_rendering
from shoal.model.settings import BrowserSettings

SHELL = """<div id=root></div><script>
fetch('/api').then(r => r.text()).then(t => document.getElementById('root').innerHTML = '<h1>' + t + '</h1>')
</script>"""
AFTER_A_CLICK = """<input id=who><button onclick="later()">more</button><ul></ul><script>
function later() { setTimeout(() => {
  document.querySelector('ul').innerHTML = '<li>' + document.getElementById('who').value; }, 200) }</script>"""
ENDLESS = """<ol></ol><script>
let n = 0;
function grow() { for (let i = 0; n < 60 && i < 20; i++, n++) {
  const one = document.createElement('li'); one.textContent = 'item ' + n; one.style.height = '200px';
  document.querySelector('ol').append(one); } }
grow(); addEventListener('scroll', grow);</script>"""
PAGES = {
    "/shell": SHELL,
    "/api": "from the api",
    "/click": AFTER_A_CLICK,
    "/endless": ENDLESS,
    "/loop": "<h1>x</h1><script>while (true);</script>",
    "/dialogs": "<script>alert(1); confirm(2); document.write('<h2>after</h2>')</script>",
    "/busy": "<h1>shown</h1><script>setInterval(() => fetch('/api?' + Math.random()), 20)</script>",
    "/workers": "<h1>x</h1><script>new Worker('/work.js'); new Worker('/work.js');"
    "new Worker(URL.createObjectURL(new Blob(['1'])))</script>",
    "/robots.txt": "",
}


@dataclass
class Site:
    port: int = 0
    pages: dict[str, str] = field(default_factory=lambda: dict(PAGES))
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]


@pytest.fixture
def site() -> Iterator[Site]:
    shared = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shared.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            body = shared.pages.get(self.path.partition("?")[0], "").encode()
            self.send_response(302 if self.path == "/moved" else 200)
            if self.path == "/moved":
                self.send_header("Location", "/shell")
            script = self.path.endswith(".js")
            self.send_header("Content-Type", "text/javascript" if script else "text/html")
            self.send_header("Set-Cookie", "seen=yes")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        shared.port = server.server_address[1]
        Thread(target=server.serve_forever, daemon=True).start()
        yield shared
        server.shutdown()


@asynccontextmanager
async def open_browser(
    *actions: Action,
    page_s: float = 20.0,
    limits: BrowserSettings | None = None,
    allowed: str = "127.0.0.1/32",
    session: bool = False,
    **options: bool,
) -> AsyncIterator[BrowserClient]:
    program("chromium-headless-shell", "chromium-headless-shell")
    guard = Guard(address_ranges([allowed]))
    rendering = Rendering(actions=actions, **options)
    async with (
        BrowserPool.open(limits or BrowserSettings(page_s=page_s)) as pool,
        open_egress(guard=guard, passes=pool.passes) as egress,
        BrowserClient.open(pool, egress, Names(), guard, rendering=rendering, session=session) as client,
    ):
        yield client


async def fetch(client: BrowserClient, site: Site, path: str, **headers: str) -> Response:
    sent = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    answer = await client.fetch(f"http://127.0.0.1:{site.port}{path}", headers=sent, limits=FetchLimits())
    assert isinstance(answer, Response), answer
    return answer


async def test_a_page_is_rendered_with_its_headers_and_marked(site: Site) -> None:
    async with open_browser(screenshot=True) as client:
        sent = {"User_Agent": "Shoal/test", "Cookie": "a=1; b=2", "X_Key": "secret"}
        page = await fetch(client, site, "/shell", **sent)

        assert b"<h1>from the api</h1>" in page.body
        assert page.status == 200
        assert page.header("set-cookie") == "seen=yes"
        assert page.rendered is not None
        assert page.rendered.screenshot.startswith(b"\x89PNG")
        assert b"<div id=root></div>" in page.wire
        (_, document), (_, api) = site.seen
        assert document["user-agent"] == api["user-agent"] == "Shoal/test"
        assert document["cookie"] == "a=1; b=2"
        assert (document["x-key"], api.get("x-key")) == ("secret", None)

        site.seen.clear()
        await fetch(client, site, "/shell")
        assert "cookie" not in site.seen[0][1]  # nothing is kept from page to page


INSTALL = """<body><iframe></iframe><script>
const end = (word) => { document.body.innerHTML = '<h1>' + word + '</h1>' };
const found = [navigator.serviceWorker, frames[0].navigator.serviceWorker].find((one) => one);
if (found) found.register('/forge.js').then(() => found.ready).then(() => end('installed'));
else end(window.SharedWorker ? 'shared' : 'nothing');</script>"""
FORGE = """addEventListener('install', () => skipWaiting());
addEventListener('activate', event => event.waitUntil(clients.claim()));
addEventListener('fetch', event => event.respondWith(
  new Response('<h1>forged</h1>', {headers: {'Content-Type': 'text/html'}})))"""


async def test_a_page_starts_no_worker_that_outlives_it_and_none_answers_for_a_later_page(site: Site) -> None:
    site.pages |= {"/install": INSTALL, "/forge.js": FORGE, "/read": "<h1>real</h1>"}
    async with open_browser(WaitFor("h1"), session=True) as client:
        assert b"<h1>nothing</h1>" in (await fetch(client, site, "/install")).body
        assert b"<h1>real</h1>" in (await fetch(client, site, "/read")).body
        assert "/forge.js" not in site.paths()


LEAVE = "<h1>left</h1><script>localStorage.setItem('left', 'behind')</script>"
FIND = "<script>document.write('<h1>' + (localStorage.getItem('left') || 'nothing') + '</h1>')</script>"


async def test_a_page_leaves_nothing_behind_for_the_next_one_unless_the_crawl_asks_for_a_session(
    site: Site,
) -> None:
    site.pages |= {"/leave": LEAVE, "/find": FIND}
    async with open_browser() as client:
        await fetch(client, site, "/leave")
        assert b"<h1>nothing</h1>" in (await fetch(client, site, "/find")).body
    async with open_browser(session=True) as client:
        await fetch(client, site, "/leave")
        assert b"<h1>behind</h1>" in (await fetch(client, site, "/find")).body


@pytest.mark.parametrize(
    ("path", "actions", "found"),
    [
        ("/click", (Fill("#who", "Anna"), Click("button"), WaitFor("li")), b"<li>Anna</li>"),
        ("/endless", (ScrollToEnd(pause_ms=100),), b"item 59"),
        ("/dialogs", (), b"<h2>after</h2>"),
    ],
)
async def test_actions_are_done_before_the_page_is_captured(
    site: Site, path: str, actions: tuple[Action, ...], found: bytes
) -> None:
    async with open_browser(*actions) as client:
        assert found in (await fetch(client, site, path)).body


async def test_a_redirect_is_returned_and_not_followed(site: Site) -> None:
    async with open_browser() as client:
        moved = await fetch(client, site, "/moved")
        assert (moved.status, moved.header("location"), moved.body) == (302, "/shell", b"")
        assert site.paths() == ["/moved"]


async def test_a_page_that_never_ends_is_cut_at_the_deadline(site: Site) -> None:
    async with open_browser(page_s=3.0) as client:
        busy = await fetch(client, site, "/busy")
        assert b"<h1>shown</h1>" in busy.body
        assert busy.rendered is not None
        assert busy.rendered.partial == ("deadline",)
        loop = await client.fetch(f"http://127.0.0.1:{site.port}/loop", limits=FetchLimits())
        assert isinstance(loop, Failure)
        assert loop.failure_class is FailureClass.POISON
        assert "did not stop" in loop.reason
        assert b"from the api" in (await fetch(client, site, "/shell")).body  # the browser is still of use


async def test_a_page_with_workers_is_complete_when_they_have_started(site: Site) -> None:
    """The browser does not tell a page that the script of a worker has arrived."""
    async with open_browser() as client:
        page = await fetch(client, site, "/workers")
        assert site.paths().count("/work.js") == 2
        assert page.rendered is not None
        assert page.rendered.partial == ()


async def test_a_browser_that_was_killed_is_started_again_and_leaves_no_process(site: Site) -> None:
    async with open_browser() as client:
        await fetch(client, site, "/shell")
        [browser] = client._pool.browsers
        first = browser.chromium.pid
        os.killpg(first, signal.SIGKILL)
        async with asyncio.timeout(10):
            await browser.chromium.connection.closed.wait()
        assert b"from the api" in (await fetch(client, site, "/shell")).body
        second = client._pool.browsers[-1].chromium.pid
        assert second != first
    async with asyncio.timeout(10):
        while running_in({first, second}):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def running_in(groups: set[int]) -> list[str]:
    """Return the processes of some groups that have not ended; the init process collects the others."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = stat.read_text().rpartition(") ")
            state, _, group = rest.split()[:3]
            if int(group) in groups and state != "Z":
                found.append(name)
    return found


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ((Click(" "),), "needs a selector"),
        ((ScrollToEnd(times=0),), "must be 1 to"),
        ((WaitFor(),), "a selector, a script or a time"),
        ((WaitFor(time_ms=1),) * 51, "at most 50"),
    ],
)
def test_actions_that_cannot_be_done_are_refused(actions: tuple[Action, ...], reason: str) -> None:
    assert reason in (refuse_rendering(Rendering(actions=actions)) or "")
    assert refuse_rendering(Rendering(actions=(Click("a"), ScrollToEnd()))) is None


def test_a_missing_browser_is_named_with_how_to_get_one() -> None:
    with pytest.raises(Misconfigured, match=r"no program 'no-such-browser'.*apt-get install"):
        find_program("no-such-browser")
