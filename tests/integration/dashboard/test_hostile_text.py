"""Text of sites in the dashboard: markup in titles, URLs, headers, errors and items stays text."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from tests.e2e.command import NO_RETRIES, QUICK, shoal
from tests.integration.dashboard.pages import PAGES, Dashboard, open_dashboard

from shoal.model.alert import Alert, AlertBook, AlertKind, dump_book
from shoal.stores.contract.monitoring import ALERTS
from shoal.stores.open import open_store

SVG = "<svg/onload=alert(8)>"
MARK = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ATTACK = (
    f"<html><head><title>{MARK}</title><style>body{{background:url(/style-loaded)}}</style></head>"
    '<body onload="alert(3)"><h1>&lt;script&gt;alert(4)&lt;/script&gt; Lamps</h1>'
    f'<p class=name>{MARK.replace("<", "&lt;")}</p><img src="/image-loaded" onerror="alert(5)">'
    '<script>alert(6); parent.document.body.innerHTML = "owned"</script><iframe src="/frame-loaded"></iframe>'
    '<form action="/form-sent"><button>go</button></form>'
    '<a href="/a%3Cscript%3Ealert(7)%3C/script%3E?q=<svg/onload=alert(8)>">next</a>'
    "<a href='/broken'>broken</a></body></html>"
)
SPIDER = """
import shoal
spider = shoal.Spider("<b>x</b>", "{address}")

@spider.page()
def page(page):
    yield {{"title": page.css("title").get(), "<img src=y onerror=alert(9)>": page.css(".name::text").get()}}
    yield page.links("a")
    if "broken" in page.url:
        raise ValueError("<script>alert(10)</script>")
"""


@asynccontextmanager
async def hostile_site() -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        body = b"" if b"robots.txt" in request.split(b"\r\n")[0] else ATTACK.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Note: {MARK}\r\nContent-Length: {len(body)}"
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def crawled_attack(folder: Path) -> str:
    async with hostile_site() as address:
        (folder / "spider.py").write_text(SPIDER.format(address=address))
        options = ("--store", "shoal", "--crawl", "<i>shop</i>", "--quiet")
        await asyncio.to_thread(shoal, "crawl", "spider.py", *QUICK, *options, cwd=folder, env=NO_RETRIES)
        return address


async def test_text_of_a_site_is_inert_on_every_page(tmp_path: Path) -> None:
    address = await crawled_attack(tmp_path)
    async with open_store(str(tmp_path / "shoal")) as store:
        alert = Alert(kind=AlertKind.STAGE_STALLED, about=MARK, cause=MARK, action=MARK, done=MARK, since=1.0)
        await store.monitoring.put({ALERTS: dump_book(AlertBook(at=1.0, recent=(alert,)))})
    async with open_dashboard(tmp_path, str(tmp_path / "shoal")) as shown:
        for path in PAGES:
            await shown.show(path)
            await check_inert(shown, path)
        assert "<i>shop</i>" in await shown.show("crawls/%3Ci%3Eshop%3C%2Fi%3E")
        assert "onerror=alert(9)" in await shown.show("items")
        await check_inert(shown, "items")

        story = await shown.show(
            "requests?url=" + quote(f"{address}a%3Cscript%3Ealert(7)%3C/script%3E?q={SVG}")
        )
        assert "alert(7)" in story
        await check_inert(shown, "the story of a URL")
        await shown.show("hosts/" + address.split("/")[2])
        await check_inert(shown, "a host")
        assert MARK in await shown.show("alerts")
        await check_inert(shown, "alerts")

        await shown.show("dead-letters")
        await shown.page.until("document.querySelector('td .url')")
        await shown.page.run("document.querySelector('td .url').click()")
        await shown.page.until("document.querySelector('dialog .traceback')")
        assert "<script>alert(10)</script>" in await shown.page.text()
        await check_inert(shown, "a dead letter")
        await shown.page.click("Look at its page")
        await shown.page.until("document.querySelector('iframe.archived')")
        frame = await shown.page.run("document.querySelector('iframe').srcdoc")
        assert "Lamps" in frame
        assert not [word for word in ("<script", "<style", "<img", "<form", "<iframe") if word in frame]
        await shown.page.click("Headers")
        await shown.page.until(f"document.body.innerText.includes({json.dumps(MARK)})")
        await check_inert(shown, "an archived page")
        shown.check()  # no dialog, no request to the site, no violation of the policy


async def check_inert(shown: Dashboard, where: str) -> None:
    """Raise if the page has elements that no page of the dashboard makes."""
    script = (
        "[...document.querySelectorAll('img, script, iframe, [onerror], [onload], [onclick], [style*=url]')]"
        '.filter((one) => !(one.matches(\'img[src="/static/shoal.svg"], script[src="/static/app.js"],'
        " iframe.archived'))).map((one) => one.outerHTML)"
    )
    assert await shown.page.run(script) == [], where


async def test_the_browser_refuses_markup_and_foreign_code(tmp_path: Path) -> None:
    """The policy is a second lock: a mistake in a page does not become a hole."""
    async with open_dashboard(tmp_path, str(tmp_path / "none")) as shown:
        refused = await shown.page.run(
            "(() => { try { document.body.innerHTML = '<img src=x onerror=alert(1)>'; return 'set' }"
            " catch (error) { return error.name } })()"
        )
        assert refused == "TypeError"
        await shown.page.run(
            "document.body.append(Object.assign(document.createElement('style'), {textContent: 'x{}'}))"
        )
        await shown.page.until("true")
        assert "style-src" in " ".join(shown.page.console)
        headers = (await shown.server.send("GET", "/ui", role=None)).headers
        assert "unsafe-inline" not in headers["content-security-policy"]
        page = await shown.server.send(
            "GET", "/api/v1/live/page/body?crawl=x&segment=s&offset=0&length=1", role=None
        )
        assert page.status == 401
