"""A real NATS server with JetStream, on a free port, in a private folder."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.servers.process import ServerProcess, free_port, program, until


class NatsServer(ServerProcess):
    """A server that keeps its port and its data when it is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"nats://127.0.0.1:{self.port}"
        self.data = folder / "data"
        binary = program(
            "nats-server", "nats-server", folders=str(Path(sys.executable).parent.relative_to("/"))
        )
        super().__init__(
            [binary, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.data)], folder
        )

    async def begin(self) -> None:
        """Start the server; return when it answers."""
        self.start()
        await until(NatsServer.answers, self)

    async def answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        greeting = await reader.readline()
        writer.close()
        return greeting.startswith(b"INFO") and b'"jetstream":true' in greeting


@asynccontextmanager
async def nats_server(folder: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(folder)
    try:
        await server.begin()
        yield server
    finally:
        server.kill()
