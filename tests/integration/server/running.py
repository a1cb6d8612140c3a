"""A server of the API on a free port of this machine, in this process, and a client that sends raw requests."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from shoal.model.api.roles import Role
from shoal.model.settings import Settings
from shoal.server.access.tokens import add_token
from shoal.server.serve import Listening, ServePlan, serve


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True)
class RunningServer:
    port: int
    tokens: Mapping[Role, str]
    plan: ServePlan
    host: str = field(default="127.0.0.1")

    async def send(
        self,
        method: str,
        path: str,
        *,
        role: Role | None = Role.ADMIN,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        source: str = "127.0.0.1",
    ) -> Reply:
        """Send one request; `body` is encoded as JSON unless it is bytes."""
        sent = {"Host": f"{self.host}:{self.port}", "Connection": "close"}
        if role is not None:
            sent["Authorization"] = f"Bearer {self.tokens[role]}"
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else msgspec.json.encode(body)
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        sent |= headers or {}
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        raw = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + content
        return parse_reply(await self.raw(raw, source=source))

    async def raw(self, data: bytes, *, timeout: float = 30.0, source: str = "127.0.0.1") -> bytes:
        """Send bytes and return everything until the server closes the connection."""
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=(source, 0))
            try:
                writer.write(data)
                await writer.drain()
                return await reader.read(-1)
            except ConnectionResetError:
                return b""
            finally:
                writer.close()


def parse_reply(data: bytes) -> Reply:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return Reply(int(first.split(" ")[1]), headers, body)


def _unchunked(data: bytes) -> bytes:
    parts = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        parts.append(data[:length])
        data = data[length + 2 :]
    return b"".join(parts)


@asynccontextmanager
async def running_server(folder: Path, *, store: str = "", **options: Any) -> AsyncIterator[RunningServer]:
    """Run a server with one token of each role."""
    file = folder / "tokens.json"
    tokens = {role: add_token(file, f"test-{role}", role) for role in Role}
    settings = options.pop("settings", None) or Settings(store=store or str(folder / "store"))
    plan = ServePlan(settings, "127.0.0.1:0", file, **options)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(plan, stop, ready.set_result))
        listening: Listening = await ready
        port = int(listening.url.rstrip("/").rpartition(":")[2])
        try:
            yield RunningServer(port, tokens, plan)
        finally:
            stop.set()
