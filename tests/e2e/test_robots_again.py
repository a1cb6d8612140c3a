"""A robots.txt that changes is read again: when its cache time is over, and when the operator says so."""

import asyncio
from pathlib import Path

import pytest
from tests.e2e.command import shoal, started
from tests.fleet_crawl import Fleet
from tests.servers.redis import valkey

ENDS_WITHIN_S = 60.0


@pytest.mark.parametrize("kind", ["folder", "fleet"])
@pytest.mark.parametrize("how", ["cache time", "command"])
async def test_a_site_that_closes_is_left_soon(kind: str, how: str, tmp_path: Path) -> None:
    rules, pages = b"User-agent: *\nAllow: /\n", 0
    seconds = 1 if how == "cache time" else 86_400

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pages
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                kind, body = b"text/plain", rules
                if b"/robots.txt" not in head:
                    pages += 1
                    kind, body = b"text/html", b'<a href="/%d">next</a>' % pages
                fields = (kind, seconds, len(body), body)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nCache-Control: max-age=%d\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % fields
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def close_site(env: dict[str, str]) -> None:
        nonlocal rules
        async with asyncio.timeout(ENDS_WITHIN_S):
            while pages < 4:  # noqa: ASYNC110 - another process makes the requests
                await asyncio.sleep(0.02)
        rules = b"User-agent: *\nDisallow: /\n"
        if how == "command":
            told = await asyncio.to_thread(shoal, "host", "refresh-robots", host, cwd=tmp_path, env=env)
            assert told.out == f"the robots.txt of {host} will be fetched again\n", told.err

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    env = {"SHOAL_CRAWL_ROBOTS_MIN_TTL": "0.5"}
    options = (f"http://{host}/", "--allow-private", "--rate", "8")
    async with server:
        if kind == "folder":
            with started("crawl", *options, "--quiet", cwd=tmp_path, env=env) as crawl:
                await close_site(env)
                assert await asyncio.to_thread(crawl.wait, ENDS_WITHIN_S) == 0
        else:
            async with valkey(tmp_path) as store:
                with Fleet(store.dsn, tmp_path, settings=env) as fleet:
                    submitted = await asyncio.to_thread(
                        shoal, "submit", *options, cwd=tmp_path, env=fleet.env
                    )
                    assert submitted.code == 0, submitted.err
                    worker = fleet.start("--until-done")
                    await close_site(fleet.env)
                    assert await fleet.ended(worker, within=ENDS_WITHIN_S) == 0, fleet.logs()
