"""Pages in a real Chromium over TLS, and through real proxies: with the cookies of the request, and every byte counted."""

import asyncio
import base64
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.integration.fetch.test_egress import open_egress, until
from tests.integration.fetch.test_exits import Names, chosen
from tests.servers.process import program
from tests.servers.proxies import Make, Microsocks, Squid, Tinyproxy, proxy_server
from tests.site.certificates import Authority, make_authority
from tests.site.raw import Peer, answer, raw_server

from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.http.guard import Guard
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.settings import BrowserSettings

FILLER = "x" * 40_000
PAGE = """<link rel=icon href="data:,"><div id=root></div><script>
fetch('/data').then(r => r.text()).then(t => root.innerHTML = '<h1>' + t.slice(0, 5) + '</h1>')</script>"""
HTML = (("Content-Type", "text/html"), ("Connection", "close"))


async def site(peer: Peer) -> None:
    path = (await peer.request()).split(b" ", 2)[1]
    await peer.send(answer(f"hello{FILLER}".encode() if path == b"/data" else PAGE.encode(), headers=HTML))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def trusting(authority: Authority) -> Iterator[str]:
    """A browser that accepts the certificate of `authority` for 127.0.0.1, which the system does not know."""
    certificate, _ = authority.issue("IP:127.0.0.1")
    public = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-pubkey"], check=True, capture_output=True
    )
    key = subprocess.run(
        ["openssl", "pkey", "-pubin", "-outform", "der"], input=public.stdout, check=True, capture_output=True
    )
    spki = base64.b64encode(hashlib.sha256(key.stdout).digest()).decode()
    real = program("chromium-headless-shell", "chromium-headless-shell")
    folder = Path(tempfile.mkdtemp(prefix="trusting-"))
    folder.chmod(0o755)
    script = folder / "chromium-headless-shell"
    script.write_text(f'#!/bin/sh\nexec {real} --ignore-certificate-errors-spki-list={spki} "$@"\n')
    script.chmod(0o755)
    yield str(script)
    shutil.rmtree(folder)


@dataclass(slots=True)
class Counted:
    """What the accounting of exits was given."""

    found: list[tuple[str, str, int]] = field(default_factory=list)  # exit, host, bytes

    def __call__(self, via: ChosenExit, host: str, size: int) -> None:
        self.found.append((via.name, host, size))

    def total(self) -> int:
        return sum(size for _, _, size in self.found)


@asynccontextmanager
async def browser(path: str = "") -> AsyncIterator[tuple[BrowserClient, Counted]]:
    program("chromium-headless-shell", "chromium-headless-shell")
    guard, counted = Guard(PRIVATE), Counted()
    async with (
        BrowserPool.open(BrowserSettings(page_s=20.0, path=path)) as pool,
        open_egress(guard=guard, passes=pool.passes) as egress,
        BrowserClient.open(pool, egress, Names(), guard) as client,
    ):
        egress.on_traffic = counted
        yield client, counted


async def test_https_pages_are_rendered_if_their_certificate_is_trusted(
    authority: Authority, trusting: str
) -> None:
    async with raw_server(site, tls=authority.server("IP:127.0.0.1")) as server:
        async with browser(trusting) as (client, _):
            page = await client.fetch(server.url(), headers=(("Cookie", "a=1"),), limits=FetchLimits())
            assert isinstance(page, Response), page
            assert b"<h1>hello</h1>" in page.body
            assert all(b"Cookie: a=1" in request for request in server.requests)
        asked = len(server.requests)
        async with browser() as (client, _):
            refused = await client.fetch(server.url(), limits=FetchLimits())
            assert isinstance(refused, Failure)
            assert (refused.failure_class, "ERR_CERT" in refused.reason) == (FailureClass.TLS, True), refused
        assert len(server.requests) == asked


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("make", [Tinyproxy, Squid, Microsocks])
async def test_a_page_and_what_it_loads_leave_through_the_exit_of_the_request(
    make: Make, scheme: str, authority: Authority, trusting: str, tmp_path: Path
) -> None:
    tls = authority.server("IP:127.0.0.1") if scheme == "https" else None
    async with raw_server(site, tls=tls) as server, proxy_server(make, tmp_path / "proxy") as proxy:
        async with browser(trusting) as (client, counted):
            page = await client.fetch(
                server.url(), headers=(("Cookie", "a=1; b=2"),), limits=FetchLimits(), via=chosen(proxy.line)
            )
            assert isinstance(page, Response), page
            assert b"<h1>hello</h1>" in page.body
            assert page.exit == proxy.name
            assert server.paths() == ["/", "/data"]
            assert all(b"Cookie: a=1; b=2" in request for request in server.requests)
            assert not any(b"proxy-" in request.lower() for request in server.requests)
            await until(lambda: counted.total() > server.sent)
        assert {(name, host) for name, host, _ in counted.found} == {(proxy.name, f"127.0.0.1:{server.port}")}
        assert server.sent > len(FILLER)
        assert counted.total() < server.sent + 20_000, "headers, handshakes and the words with the proxy"
        assert str(server.port) in " ".join(await asyncio.to_thread(proxy.log)), "the proxy has seen it"


async def test_an_exit_that_refuses_us_is_named_and_the_page_is_not_asked_for(tmp_path: Path) -> None:
    async with (
        raw_server(site) as server,
        proxy_server(Tinyproxy, tmp_path / "proxy") as proxy,
        browser() as (client, _),
    ):
        wrong = chosen(proxy.line.replace("secret", "guess"))
        failed = await client.fetch(server.url(), limits=FetchLimits(), via=wrong)
        assert isinstance(failed, Failure)
        assert failed.failure_class is FailureClass.PROXY_ERROR, failed
        assert server.requests == []
