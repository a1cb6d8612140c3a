"""A host with URLs that are always refused, beside the same host without them."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.command import PRIVATE, shoal
from tests.e2e.test_limited_host import store_of

PAGES, RATE = 60, 8.0
REFUSED = {"/p7": "429 Too Many Requests", "/p19": "403 Forbidden", "/p33": "500 Internal Server Error"}
TRIES = {"/p7": 6, "/p19": 4, "/p33": 4}  # the 429 that may be a limit of the host costs no attempt


class Server:
    """Answers at 127.0.0.1 everything, and at 127.0.0.2 all but `REFUSED`."""

    def __init__(self) -> None:
        self.served: dict[str, list[float]] = {"127.0.0.1": [], "127.0.0.2": []}
        self.refused = Counter[str]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path, address = head.split(b" ", 2)[1].decode(), writer.get_extra_info("sockname")[0]
                status = REFUSED.get(path) if address == "127.0.0.2" else None
                if status is None:
                    self.served[address].append(time.monotonic())
                else:
                    self.refused[path] += 1
                wait = "Retry-After: 1\r\n" if status == REFUSED["/p7"] else ""
                writer.write(
                    f"HTTP/1.1 {status or '200 OK'}\r\n{wait}Content-Type: text/html\r\n"
                    "Content-Length: 2\r\n\r\nok".encode()
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.mark.slow("60 pages at eight per second")
@pytest.mark.alone("the times of two hosts are compared")
@pytest.mark.parametrize("store", ["folder", "fleet"])
async def test_refused_urls_cost_their_host_a_fifth_of_its_time_at_most(tmp_path: Path, store: str) -> None:
    site = Server()
    server = await asyncio.start_server(site, ["127.0.0.1"], 0)
    port = server.sockets[0].getsockname()[1]
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(
        "".join(f"http://{host}:{port}/p{number}\n" for number in range(PAGES) for host in site.served)
    )
    async with server, await asyncio.start_server(site, "127.0.0.2", port), store_of(store, tmp_path) as dsn:
        options = ("--rate", f"{RATE:g}", "--store", dsn, "--allow-private", "--no-robots", "--json")
        env = {**PRIVATE, "SHOAL_RETRY_BASE": "1"}
        crawl = await asyncio.to_thread(
            shoal, "crawl", "--seeds", str(seeds), *options, cwd=tmp_path, env=env, timeout=60.0
        )
        letters = await asyncio.to_thread(
            shoal, "dlq", "list", "--store", dsn, "--json", cwd=tmp_path, env=env
        )

    assert (crawl.code, crawl.json["counts"]["dead"]) == (0, 3), crawl.err
    assert site.refused == TRIES
    attempts = {
        letter["url"].rpartition("/")[2]: letter["attempts"] for letter in letters.json["dead_letters"]
    }
    assert {f"/{path}": number for path, number in attempts.items()} == TRIES
    usual, troubled = (times[-1] - times[0] for times in site.served.values())
    print(f"{store}: {usual:.2f} s without, {troubled:.2f} s with refused URLs")
    assert troubled <= 1.2 * usual
