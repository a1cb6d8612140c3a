"""The private server of a folder: joined while it runs, started when a command reads the store."""

import stat
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from shoal.model.errors import Misconfigured
from shoal.redis_client import parse
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
    async with open_store(str(tmp_path), create=True) as store, store.work():
        pass
    async with open_store(str(tmp_path)) as store:
        assert not store.capabilities.shared


async def test_a_private_server_wants_a_password_that_is_in_no_argument_or_environment(
    tmp_path: Path,
) -> None:
    async with run_private_server(tmp_path / PRIVATE_SERVER) as dsn:
        parsed = parse(dsn)
        password = parsed.login.secret()
        assert len(password) == 64
        with pytest.raises(Misconfigured, match="password"):
            async with open_store(dsn.partition("?")[0]) as store:
                await store.crawls.names()
        async with open_store(dsn) as store:
            assert await store.crawls.names() == []
        socket = Path(parsed.addresses[0].host)
        assert {stat.S_IMODE(path.stat().st_mode) for path in (socket.parent, tmp_path / PRIVATE_SERVER)} == {
            0o700
        }
        assert {
            stat.S_IMODE((socket.parent / name).stat().st_mode) for name in ("password", "server.conf")
        } == {0o600}
        assert tmp_path not in socket.parents
        looked_at = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a child of another test that has ended, also a zombie
                assert password not in " ".join(process.cmdline())
                assert password not in str(process.environ())
                looked_at.append(" ".join(process.cmdline()))
        assert any(str(socket.parent) in line for line in looked_at), looked_at
        assert password not in (tmp_path / PRIVATE_SERVER / "server.log").read_text()
    assert not socket.parent.exists()
