"""Pages in a browser: scripts that do not stop, that use up memory, and that look for ways past the egress."""

import asyncio

from tests.hostile.case import Case, Evidence, filled, page, redirect, site
from tests.site.raw import Peer, answer
from tests.site.ways_out import BOUNCE_PATH, WORKER_PATH, service_worker, ways_out

MAPPED = "[::ffff:127.0.0.1]:{canary}"
CANARY = "0.0.0.0:{canary}"


def canary_url(way: str, scheme: str = "http") -> str:
    """Return where a way out leads: to an address that the guard refuses, in one of two spellings."""
    return f"{scheme}://{CANARY if way in ('fetch', 'frame', 'image') else MAPPED}/{way}"


WAYS = ways_out(canary_url, lambda way: "127.0.0.1:{canary}")
LOCAL = """<title>local</title><iframe src="file:///etc/passwd"></iframe><iframe src="chrome://version"></iframe>
<iframe src="view-source:http://127.0.0.1/"></iframe><script>
for (const url of ['file:///etc/passwd', 'chrome://settings', 'view-source:file:///etc/passwd', 'javascript:1'])
  try { window.open(url) } catch (error) {}
fetch('file:///etc/passwd').then((found) => found.text()).then((text) => document.title = text).catch(() => 0);
</script>"""
# As fast as it can: 64 MiB at a time.
HEAVY = """<script>const kept = [];
setInterval(() => { const a = new Uint8Array(64 << 20); a.fill(1); kept.push(a); fetch('/x') }, 0);</script>"""
UNLOADS = """<title>stays</title><script>
addEventListener('beforeunload', (event) => event.preventDefault()); setInterval(() => location.reload(), 30);
</script>"""


def scripted(script: str) -> bytes:
    return page(f"<title>hostile</title><script>{script}</script>")


def ways(peer: Peer, request: bytes) -> bytes:
    return filled(page(WAYS))


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<title>endless</title>")
    while True:
        await peer.send(b"<p>" * 20_000)


async def polled(peer: Peer, request: bytes) -> None:
    await asyncio.sleep(30)


def bounce(peer: Peer, request: bytes) -> bytes:
    return filled(redirect(canary_url("bounced")))


def worker(peer: Peer, request: bytes) -> bytes:
    return filled(WORKER)


def titled(title: str):  # type: ignore[no-untyped-def]
    def check(evidence: Evidence) -> None:
        assert title in [item["title"] for item in evidence.items], evidence.items

    return check


def no_secret_read(evidence: Evidence) -> None:
    assert [item["title"] for item in evidence.items] == ["local"], evidence.items


FILE = answer(
    b"<title>file</title>",
    headers=(("Content-Type", "text/html"), ("Content-Disposition", "attachment; filename=../../x.html")),
)
WORKER = answer(
    service_worker(canary_url("service")).encode(), headers=(("Content-Type", "text/javascript"),)
)

CASES = [
    Case("B01 loop", "a script without end", scripted("while (true);"), "dead poison"),
    Case("B01 alerts", "dialogs without end", scripted("while (true) alert(1)"), "dead poison", slow=True),
    Case("B01 unload", "a page that asks before it reloads, without end", page(UNLOADS), "done"),
    Case("B01 memory", "a page that fills the memory", site({"*": page(HEAVY)}), "dead renderer_crash"),
    Case(
        "B01 windows",
        "windows without end",
        site({"*": scripted("for (let n = 0; n < 200; n++) window.open('/?' + n)")}),
        "dead poison",
    ),
    Case(
        "B01 elements",
        "3 million elements",
        scripted("document.write('<i></i>'.repeat(3e6))"),
        "dead too_large|dead poison|dead renderer_crash",
        slow=True,
    ),
    Case("B01 body", "a body without end", endless, "dead too_large"),
    Case(
        "B02 ways",
        "every way that a page can send something, to a forbidden address",
        site({"/": ways, BOUNCE_PATH: bounce, WORKER_PATH: worker}),
        "done",
        check=titled("ways"),
    ),
    Case("B02 redirect", "a redirect to a forbidden address", redirect(f"http://{CANARY}/"), "dead refused"),
    Case(
        "B02 refresh",
        "a refresh to a forbidden address",
        page(f'<meta http-equiv=refresh content="0;url=http://{MAPPED}/">'),
        "done",
    ),
    Case("B02 location", "a script that goes to a forbidden address", scripted(f"location = 'http://{MAPPED}/'"), "done"),
    Case("B03 local", "files and pages of the browser itself", page(LOCAL), "done", check=no_secret_read),
    Case("B03 download", "a download", site({"*": FILE}), "done", check=titled("file")),
    Case(
        "B09 busy",
        "a page that is never idle",
        site({"/": scripted("setInterval(() => fetch('/poll').catch(() => 0), 200)"), "/poll": polled}),
        "done",
        check=titled("hostile"),
    ),
]  # fmt: skip
