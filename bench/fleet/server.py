"""A private server, and what it says it has used."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.servers.redis import RedisServer, redis_program, valkey_program

from shoal.redis_client import RedisClient


@asynccontextmanager
async def private_server(*options: str, name: str = "redis") -> AsyncIterator["Metered"]:
    """Run a private server: Redis, or Valkey if asked for."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    binary = redis_program() if name == "redis" else valkey_program()
    server = Metered(binary, folder, *options)
    try:
        await server.begin()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)


class Metered(RedisServer):
    async def cpu(self) -> float:
        """Seconds of CPU time since it began."""
        used = await self.info()
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    async def memory(self) -> int:
        return int((await self.info())["used_memory"])

    async def script_p99(self) -> float:
        """Seconds that 99 of 100 scripts did not exceed, by the server's own clock."""
        told = (await self.info())["latency_percentiles_usec_evalsha"]
        return float(dict(part.split("=") for part in told.split(","))["p99"]) / 1e6

    async def calls(self) -> int:
        """Count what clients have asked. `total_commands_processed` has what scripts call inside as well."""
        told = await self.info()
        scripts = dict(part.split("=") for part in told.get("cmdstat_evalsha", "calls=0").split(","))
        return max(int(told["total_reads_processed"]), int(scripts["calls"]))


@asynccontextmanager
async def one_shard(server: RedisServer, namespace: str = "shoal") -> AsyncIterator[RedisClient]:
    """Open a store of one shard: every call is one script, and its cost is not blurred by others."""
    await server.ask("HSETNX", f"{{{namespace}}}:meta", "shards", 1)
    async with RedisClient.open(f"{server.dsn}?namespace={namespace}") as store:
        yield store
