from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.servers.redis import valkey

from shoal.redis_client import RedisClient


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[RedisClient]:
    async with valkey(tmp_path / "server") as server, RedisClient.open(server.dsn) as opened:
        yield opened
