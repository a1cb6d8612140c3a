"""A site whose pages change, vanish and appear as a test says, and that answers conditional requests.

`python -m tests.site.changing PAGES BYTES` serves the shop of the benchmarks, which never changes, and prints its
port; GET /stats says how many responses of each status it has sent, and how many bytes of bodies.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from threading import Event, Thread


@dataclass
class ChangingSite:
    """`pages`: path -> body; None: 404. `validators` says which of them have an ETag."""

    pages: dict[str, str | None]
    validators: Callable[[str], bool] = lambda path: True
    asked: list[tuple[str, int]] = field(default_factory=list)  # path and status, in order
    body_bytes: int = 0
    port: int = 0

    @property
    def start(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def statuses(self) -> Counter[int]:
        return Counter(status for _, status in self.asked)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                first, *lines = head.split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                writer.write(self.answer(first.split(" ")[1], headers))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, path: str, headers: dict[str, str]) -> bytes:
        if path == "/stats":
            stats = {"statuses": self.statuses(), "body_bytes": self.body_bytes}
            return _response(200, json.dumps(stats).encode())
        body = self.pages.get(path)
        if path == "/robots.txt" or body is None:
            if path != "/robots.txt":
                self.asked.append((path, 404))
            return _response(404, b"")
        encoded = body.encode()
        tag = f'"{sha1(encoded).hexdigest()[:16]}"' if self.validators(path) else ""
        status = 304 if tag and headers.get("if-none-match") == tag else 200
        self.asked.append((path, status))
        if status == 200:
            self.body_bytes += len(encoded)
        return _response(status, encoded if status == 200 else b"", tag)


def _response(status: int, body: bytes, tag: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status} X", "Content-Type: text/html"]
    if tag:
        lines.append(f"ETag: {tag}")
    if status != 304:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@contextmanager
def serving_changes(site: ChangingSite) -> Iterator[ChangingSite]:
    """Serve a site from a thread, on a free port of this machine."""
    ready, stop = Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        connections: set[asyncio.StreamWriter] = set()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.add(writer)
            await site.serve(reader, writer)
            connections.discard(writer)

        server = await asyncio.start_server(answer, "127.0.0.1", site.port)
        site.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for writer in list(connections):
            writer.close()
        await asyncio.sleep(0.05)

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield site
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)


async def _main(pages: int, page_bytes: int) -> None:
    from bench import site as shop

    shop.PAGE_BYTES = page_bytes
    site = ChangingSite({shop.path_of(number): shop.page(number, pages) for number in range(pages)})
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2])))
