"""The private server of a folder: joined while it runs, started when a command reads the store."""

from pathlib import Path

import pytest

from shoal.stores.folder.directory import PRIVATE_SERVER
from shoal.stores.open import open_shared_store, open_store
from shoal.stores.redis.private_server import run_private_server


@pytest.mark.parametrize("folder", ["short", "long" * 30])
async def test_a_private_server_is_joined_while_it_runs_and_started_otherwise(
    tmp_path: Path, folder: str
) -> None:
    path = str(tmp_path / folder)
    async with open_shared_store(path) as shared:
        assert shared.capabilities.shared
        await shared.fleet.frontier.crawls.open("shop")
        async with open_store(path) as store:
            assert await store.crawls.names() == ["shop"]
    for address in (path, f"{path}/{PRIVATE_SERVER}"):
        async with open_store(address) as store:
            assert (store.address, await store.crawls.names()) == (address, ["shop"])


async def test_a_folder_with_an_embedded_crawl_does_not_start_its_private_server(tmp_path: Path) -> None:
    async with run_private_server(tmp_path / PRIVATE_SERVER):
        pass
    async with open_store(str(tmp_path), create=True) as store, store.own():
        pass
    async with open_store(str(tmp_path)) as store:
        assert not store.capabilities.shared
