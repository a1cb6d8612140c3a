"""A real Chromium for tests of pages: opens one, watches its console and its requests, takes pictures."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.servers.process import program

from shoal.fetch.browser.cdp import CdpSession, Params
from shoal.fetch.browser.chromium import open_chromium
from shoal.model.settings import BrowserSettings

WAIT_S = 60.0  # for a condition on a page; a busy machine is five times slower than an idle one
DESKTOP, PHONE = (1440, 900), (360, 780)


@dataclass
class BrowserPage:
    """One page of a browser, and everything that went wrong in it."""

    session: CdpSession
    console: list[str] = field(default_factory=list)  # errors and warnings, exceptions, refused by a policy
    failed: list[str] = field(default_factory=list)  # requests without an answer, or with 400 and above
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)  # alert() and its like: a script of a site has run
    _urls: dict[str, str] = field(default_factory=dict)

    async def start(self) -> None:
        on = self.session.on
        on("Runtime.consoleAPICalled", self._console)
        on("Runtime.exceptionThrown", self._exception)
        on("Log.entryAdded", self._entry)
        on("Network.requestWillBeSent", self._request)
        on("Network.responseReceived", self._response)
        on("Network.loadingFailed", self._loading_failed)
        on("Page.javascriptDialogOpening", self._dialog)
        for domain in ("Runtime", "Log", "Network", "Page"):
            await self.session.call(f"{domain}.enable")

    def _console(self, params: Params) -> None:
        if params["type"] in ("error", "warning", "assert"):
            texts = [str(one.get("value", one.get("description", ""))) for one in params["args"]]
            self.console.append(f"{params['type']}: {' '.join(texts)[:500]}")

    def _exception(self, params: Params) -> None:
        details = params["exceptionDetails"]
        text = details.get("exception", {}).get("description") or details["text"]
        self.console.append(f"exception: {text[:800]}")

    def _entry(self, params: Params) -> None:
        entry = params["entry"]
        if entry["level"] in ("error", "warning"):
            self.console.append(f"{entry['level']}: {entry['text'][:500]} {entry.get('url', '')[:200]}")

    def _request(self, params: Params) -> None:
        self._urls[params["requestId"]] = params["request"]["url"]
        self.requests.append(params["request"]["url"])

    def _response(self, params: Params) -> None:
        if params["response"]["status"] >= 400:
            self.failed.append(f"{params['response']['status']} {params['response']['url'][:300]}")

    def _loading_failed(self, params: Params) -> None:
        if not params.get("canceled"):
            self.failed.append(f"{params['errorText']} {self._urls.get(params['requestId'], '')[:300]}")

    def _dialog(self, params: Params) -> None:
        self.dialogs.append(params["message"])
        self.session.post("Page.handleJavaScriptDialog", accept=True)

    async def view(self, size: tuple[int, int], *, dark: bool = False, scale: float = 1.0) -> None:
        """Set the size of the window, and light or dark as the system would."""
        width, height = size
        await self.session.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = "dark" if dark else "light"
        await self.session.call(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    async def go(self, url: str) -> None:
        await self.session.call("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        found = await self.session.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"].get("exception", {}).get("description"))
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        script = f"(() => {{ try {{ return Boolean({condition}) }} catch (error) {{ return null }} }})()"
        try:
            async with asyncio.timeout(WAIT_S):
                while not await self.run(script):  # noqa: ASYNC110 (a browser ends this)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            text = await self.run("document.body.innerText.slice(0, 1500)")
            raise AssertionError(f"never true: {condition}\nconsole: {self.console}\npage: {text}") from None

    async def text(self) -> str:
        return str(await self.run("document.body.innerText"))

    async def click(self, words: str) -> None:
        """Click the button or link with these words."""
        found = json.dumps(words)
        await self.until(
            f"[...document.querySelectorAll('button, a')].find((one) => one.innerText.trim() === {found})"
            " && true"
        )
        await self.run(
            f"[...document.querySelectorAll('button, a')].find((one) => one.innerText.trim() === {found}).click()"
        )

    async def picture(self, path: Path, *, whole: bool = False) -> None:
        """Store a PNG of the window, or of the whole page."""
        options: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            height = await self.run("document.documentElement.scrollHeight")
            width = await self.run("document.documentElement.clientWidth")
            options["clip"] = {"x": 0, "y": 0, "width": width, "height": min(height, 4000), "scale": 1}
        found = await self.session.call("Page.captureScreenshot", **options)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))


@asynccontextmanager
async def open_browser() -> AsyncIterator["TestBrowser"]:
    """Start a Chromium that reaches this machine and nothing else."""
    path = program("chromium-headless-shell", "chromium-headless-shell")
    async with open_chromium(BrowserSettings(path=path, network="shared")) as chromium:
        yield TestBrowser(chromium.connection.browser, chromium.connection)


class TestBrowser:
    __test__ = False

    def __init__(self, browser: CdpSession, connection: Any) -> None:
        self._browser = browser
        self._connection = connection

    @asynccontextmanager
    async def page(self) -> AsyncIterator[BrowserPage]:
        """Open a page with empty storage."""
        context = await self._browser.call("Target.createBrowserContext", proxyServer="direct://")
        target = await self._browser.call(
            "Target.createTarget", url="about:blank", browserContextId=context["browserContextId"]
        )
        attached = await self._browser.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page = BrowserPage(self._connection.session(attached["sessionId"]))
        await page.start()
        try:
            yield page
        finally:
            await self._browser.call(
                "Target.disposeBrowserContext", browserContextId=context["browserContextId"]
            )
