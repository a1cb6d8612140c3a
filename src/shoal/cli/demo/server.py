"""Serves the shop on a free loopback port, from a separate thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from shoal.cli.demo.shop import Reply, Shop

LATENCY_S = 0.03  # per response: about what a nearby shop takes


@contextmanager
def open_shop(shop: Shop, latency: float = LATENCY_S) -> Iterator[str]:
    """Serve a shop while the block runs; yield its address, such as `http://127.0.0.1:43211/`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="demo-shop", daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_serve(shop, latency), loop).result()
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}/"
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve(shop: Shop, latency: float) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                path = request.split(b" ", 2)[1].decode("ascii", "replace").partition("?")[0]
                await asyncio.sleep(latency)
                writer.write(_encoded(shop.reply(path)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, IndexError, asyncio.CancelledError):
            pass  # the client disconnected, or the server closes
        finally:
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


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
    ]
    return "\r\n".join([*head, "", ""]).encode() + body
