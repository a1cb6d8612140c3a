"""What answers for a folder."""

from pathlib import Path

import pytest

from shoal.redis_client import RedisClient
from shoal.stores.folder.store import StoreFolder
from shoal.stores.reach import SERVER, is_store, reached
from shoal.stores.redis.private_server import private_store


async def answers(address: str) -> bool:
    async with RedisClient.open(address, advise=False) as store:
        await store.do(store.fleet_tag, "SET", f"{store.fleet_tag}:here", "1")
        return True


@pytest.mark.parametrize("folder", ["short", "long" * 30])
async def test_a_private_server_is_asked_while_it_runs_and_started_when_it_does_not(
    tmp_path: Path, folder: str
) -> None:
    store = tmp_path / folder
    async with private_store(store / SERVER) as running:
        async with reached(str(store)) as address:
            assert address == running
            assert await answers(address)
    for name in (store, store / SERVER):
        async with reached(str(name)) as address:
            assert await answers(address)


async def test_a_folder_with_a_crawl_of_its_own_answers_for_itself(tmp_path: Path) -> None:
    async with private_store(tmp_path / SERVER):
        pass
    StoreFolder(tmp_path).database.touch()
    async with reached(str(tmp_path)) as address:
        assert address == str(tmp_path)


def test_a_folder_without_anything_is_no_store(tmp_path: Path) -> None:
    assert not is_store(str(tmp_path))
    assert is_store("redis://queue.example")
