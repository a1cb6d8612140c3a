"""Serves the sites of the demo, and proxies in front of them, on loopback, each from a separate thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus

from shoal.cli.demo.shop import Reply, Shop

LATENCY_S = 0.03  # per response: about what a nearby shop takes


Answer = Callable[[str, Mapping[str, str], str], Reply]
"""Returns the reply to a path, with the headers of the request and the address of the client."""


@contextmanager
def open_shop(shop: Shop, latency: float = LATENCY_S, port: int = 0) -> Iterator[str]:
    """Serve a shop while the block runs; yield its address, such as `http://127.0.0.1:43211/`.

    Raises `OSError` if `port` is in use; 0 is any free port.
    """
    with open_site(lambda path, headers, address: shop.reply(path), latency, port) as address:
        yield address


@contextmanager
def open_site(answer: Answer, latency: float = LATENCY_S, port: int = 0) -> Iterator[str]:
    """Serve a site while the block runs; yield its address. Raises `OSError` if `port` is in use."""
    with _running(partial(_serve, answer, latency, port)) as chosen:
        yield f"http://127.0.0.1:{chosen}/"


@contextmanager
def open_proxy(leaves_from: str) -> Iterator[int]:
    """Run a proxy whose connections leave from an address while the block runs; yield its port."""
    with _running(partial(_serve_proxy, leaves_from)) as port:
        yield port


@contextmanager
def _running(start: Callable[[], Coroutine[None, None, asyncio.Server]]) -> Iterator[int]:
    """Run a server in a thread while the block runs; yield its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="demo", daemon=True)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(start(), loop).result()
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            asyncio.run_coroutine_threadsafe(_close(server), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve_proxy(leaves_from: str) -> asyncio.Server:
    """Serve CONNECT to this machine, and nothing else."""

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward: asyncio.StreamWriter | None = None
        try:
            method, target, _ = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
            host, _, port = target.decode("ascii", "replace").rpartition(":")
            if method != b"CONNECT" or host != "127.0.0.1":
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                return
            back, onward = await asyncio.open_connection(host, int(port), local_addr=(leaves_from, 0))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, onward))
                group.create_task(_copy(back, writer))
        except (asyncio.IncompleteReadError, OSError, ValueError, asyncio.CancelledError, ExceptionGroup):
            pass  # one side disconnected, or the proxy closes
        finally:
            for one in (writer, onward):
                if one is not None:
                    one.close()

    return await asyncio.start_server(tunnel, "127.0.0.1", 0)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


async def _serve(site: Answer, latency: float, port: int) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            address = writer.get_extra_info("peername")[0]
            while request := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = request.decode("latin-1").split("\r\n")
                path = first.split(" ", 2)[1].partition("?")[0]
                pairs = (line.partition(":") for line in lines if line)
                headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
                await asyncio.sleep(latency)
                writer.write(_encoded(site(path, headers, address)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, IndexError, asyncio.CancelledError):
            pass  # the client disconnected, or the server closes
        finally:
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", port)


async def _close(server: asyncio.Server) -> None:
    server.close()
    clients = asyncio.all_tasks() - {asyncio.current_task()}
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients)


def _encoded(reply: Reply) -> bytes:
    body = reply.body.encode()
    head = [
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
        f"Content-Type: {reply.kind}",
        f"Content-Length: {len(body)}",
        *([f"Location: {reply.location}"] if reply.location else []),
        *(f"{name}: {value}" for name, value in reply.headers),
    ]
    return "\r\n".join([*head, "", ""]).encode() + body
