"""Changing a store from outside: directly if no process owns it, else through its owner."""

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from tests.unit.services.stores import NO_LIMIT, four_letters

from shoal.fetch.gate import SendGate
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Misconfigured, Unavailable
from shoal.services.control.hosts import ClearHost, SetHost, refuse_other_port, set_host, show_host
from shoal.services.control.pause import pause_crawls
from shoal.services.inspect.status import status
from shoal.stores.folder.control_socket import accept_commands
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.folder.guests.server import Guests


def listening(folder: Path, frontier: SqliteFrontier) -> AbstractAsyncContextManager[None]:
    return accept_commands(folder, frontier, Guests(frontier, SendGate(), "this"), hurry=asyncio.Event())


@pytest.fixture(params=["short", "long" * 40])
async def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StoreFolder:
    """A store, one of them at a path that is too long for a socket's name."""
    folder = StoreFolder(tmp_path / request.param)
    await four_letters(folder)
    return folder


@pytest.fixture(params=["not owned", "owned"])
async def store(request: pytest.FixtureRequest, folder: StoreFolder) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        if request.param == "owned":
            stack.enter_context(folder.owned())
            frontier = await stack.enter_async_context(SqliteFrontier.open(folder.database))
            await frontier.crawls.open("one")
            await stack.enter_async_context(listening(folder.path, frontier))
        yield str(folder.path)


async def test_crawls_are_paused_and_resumed_open_or_not(store: str) -> None:
    assert await pause_crawls(store, None, paused=True) == ["one", "two"]
    assert [crawl.paused for crawl in (await status(store)).crawls] == [True, True]
    assert await pause_crawls(store, "two", paused=False) == ["two"]
    assert [crawl.paused for crawl in (await status(store)).crawls] == [True, False]
    with pytest.raises(Misconfigured, match="no crawl named 'three'"):
        await pause_crawls(store, "three", paused=True)


async def test_a_host_is_changed_and_the_rest_is_kept(store: str) -> None:
    await set_host(store, SetHost("a.test", interval=4.0, concurrency=1))
    changed = await set_host(store, SetHost("a.test", paused=True))

    assert (changed.interval, changed.concurrency, changed.paused) == (4.0, 1, True)
    assert await show_host(store, "elsewhere.test") is None
    shown = await show_host(store, "a.test")
    assert shown is not None
    assert (shown.interval, shown.paused) == (4.0, True)


async def test_reading_a_host_is_logged_as_no_change(store: str, caplog: pytest.LogCaptureFixture) -> None:
    await show_host(store, "a.test")
    assert "crawl.changed" not in caplog.messages


async def test_a_pace_is_cleared(store: str) -> None:
    await set_host(store, SetHost("a.test", interval=4.0, concurrency=1))
    cleared = await set_host(store, ClearHost("a.test"))

    assert (cleared.interval, cleared.concurrency) == (NO_LIMIT.interval, NO_LIMIT.concurrency)


async def test_a_host_may_have_a_pace_before_it_is_known(store: str) -> None:
    assert (await set_host(store, SetHost("new.test", interval=9.0))).interval == 9.0


async def test_only_the_owner_of_the_folder_can_connect_and_the_socket_is_removed_with_the_crawl(
    folder: StoreFolder,
) -> None:
    async with SqliteFrontier.open(folder.database) as frontier:
        (folder.path / "control").touch()  # left behind by a killed owner
        async with listening(folder.path, frontier):
            found = (folder.path / "control").stat()
            assert stat.S_ISSOCK(found.st_mode)
            assert stat.S_IMODE(found.st_mode) == 0o600
        assert not (folder.path / "control").exists()


async def test_a_crawl_runs_where_no_socket_can_be_created(
    folder: StoreFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        SqliteFrontier.open(folder.database) as frontier,
        listening(tmp_path / "nowhere", frontier),
    ):
        assert await frontier.reader.crawls() == ["one", "two"]
    assert [record.message for record in caplog.records] == ["crawl.no_control_socket"]


async def test_an_owner_without_a_socket_is_unavailable(folder: StoreFolder) -> None:
    with folder.owned(), pytest.raises(Unavailable, match="takes no commands"):
        await pause_crawls(str(folder.path), "one", paused=True)


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b'{"type": "drop_crawl", "crawl": "one"}\n', b"\xff\n"])
async def test_an_unknown_command_is_refused_and_changes_nothing(tmp_path: Path, line: bytes) -> None:
    folder = StoreFolder(tmp_path)
    await four_letters(folder)
    before = await status(str(tmp_path))
    async with SqliteFrontier.open(folder.database) as frontier, listening(tmp_path, frontier):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "control")
        writer.write(line)
        assert b"not a command" in await reader.readline()
        writer.close()
        assert await status(str(tmp_path)) == before


async def test_a_missing_store_is_not_created(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    for change in (
        show_host(nowhere, "a.test"),
        set_host(nowhere, SetHost("a.test", paused=True)),
        pause_crawls(nowhere, None, paused=True),
    ):
        with pytest.raises(Misconfigured, match="no store"):
            await change
    assert not (tmp_path / "nowhere").exists()


async def test_a_host_with_another_port_than_any_crawl_has_is_refused(store: str) -> None:
    known = (await status(store)).crawls
    assert known
    refuse_other_port("b.test:81", ["a.test:80"])  # another name: it may come later
    with pytest.raises(Misconfigured, match=r"no crawl .* a\.test:81; did you mean a\.test:8080\?"):
        refuse_other_port("a.test:81", ["b.test", "a.test:8080"])
    with pytest.raises(Misconfigured, match=r"did you mean a\.test\?"):
        await set_host(store, SetHost("a.test:8080", paused=True))
    refuse_other_port("a.test:8080", ["a.test", "a.test:8080"])
