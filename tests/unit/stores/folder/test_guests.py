"""Guests of the process that owns a folder: joining, leaving, refusals, and what a bad guest can do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from shoal import __version__
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.outcome import Acknowledgement, Done, Settlement
from shoal.stores.contract.store import OwnerLost, Stay, StoreBusy
from shoal.stores.folder import joining
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.folder.guests.messages import NumberedCall, TakeLeasesCall, frame
from shoal.stores.folder.joining import Join, Joined, join_owner
from shoal.stores.folder.socket_file import bind_socket
from shoal.stores.folder.store import FolderStore
from shoal.stores.folder.working import GuestFolder, OwnedFolder
from shoal.testing.contracts.frontier import link, page, states, take

LONGEST_S = 30.0


class Together:
    """An owner and a guest of one folder, in one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hurry = asyncio.Event()
        self.asked_to_leave = asyncio.Event()
        self.owner_stack = AsyncExitStack()

    async def open_store(self, stack: AsyncExitStack) -> FolderStore:
        return await stack.enter_async_context(FolderStore.open(self.folder, create=True))

    async def own(self) -> OwnedFolder:
        store = await self.open_store(self.owner_stack)
        working = await self.owner_stack.enter_async_context(store.work(stay=Stay(hurry=self.hurry)))
        assert isinstance(working, OwnedFolder)
        return working

    async def join(self, stack: AsyncExitStack) -> GuestFolder:
        store = await self.open_store(stack)
        working = await stack.enter_async_context(store.work(stay=Stay(leave=self.asked_to_leave.set)))
        assert isinstance(working, GuestFolder)
        return working


@pytest.fixture
async def together(tmp_path: Path) -> AsyncIterator[Together]:
    opened = Together(tmp_path)
    yield opened
    opened.hurry.set()
    await opened.owner_stack.aclose()


async def test_a_guest_works_in_the_folder_and_its_crawl_is_unloaded_when_it_leaves(
    together: Together,
) -> None:
    owner = await together.own()
    async with AsyncExitStack() as stack:
        guest = await together.join(stack)
        await guest.claim("c")
        await guest.frontier.crawls.open("c")
        await guest.frontier.add("c", [link("1"), link("2")])
        leases = await take(guest.frontier)
        assert owner.frontier.crawls.is_open("c")
        assert owner.guests.running["c"].startswith("process")
    async with asyncio.timeout(LONGEST_S):
        while owner.frontier.crawls.is_open("c"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert owner.guests.running == {}
    assert len(leases) == 1
    assert await states(owner.frontier) == {"waiting": 2}
    assert (await owner.frontier.reader.counts("c")).crashes == 1


async def test_a_crawl_is_run_by_one_process(together: Together) -> None:
    owner = await together.own()
    await owner.claim("mine")
    async with AsyncExitStack() as stack:
        guest = await together.join(stack)
        await guest.claim("yours")
        with pytest.raises(StoreBusy, match="crawl mine is being run by process"):
            await guest.claim("mine")
        with pytest.raises(StoreBusy, match="crawl yours is being run by process"):
            await owner.claim("yours")


async def test_a_guest_cannot_open_or_change_the_crawl_of_another_process(together: Together) -> None:
    owner = await together.own()
    await owner.frontier.crawls.open("mine")
    await owner.frontier.add("mine", [link("1")])
    [lease] = (await owner.frontier.lease(holder="o", limit=1, ttl=60.0, crawls=("mine",))).leases
    async with AsyncExitStack() as stack:
        guest = (await together.join(stack)).frontier
        with pytest.raises(StoreBusy, match="open in another process"):
            await guest.crawls.open("mine")
        with pytest.raises(Misconfigured, match="is open and cannot be deleted"):
            await guest.crawls.delete("mine")
        for work in (
            {"settlements": [Settlement(lease, Done(page()))]},
            {"acknowledgements": [Acknowledgement("mine", 1, Done(page()))]},
            {"crawl_state": {"mine": {"key": b"value"}}},
        ):
            with pytest.raises(Misconfigured, match="open in another process"):
                await guest.commit(**work)
    assert await states(owner.frontier, "mine") == {"leased": 1}


async def test_an_owner_that_ends_asks_its_guests_to_leave_and_waits_for_them(together: Together) -> None:
    await together.own()
    async with asyncio.timeout(LONGEST_S), asyncio.TaskGroup() as group:
        async with AsyncExitStack() as stack:
            guest = await together.join(stack)
            await guest.frontier.crawls.open("c")
            await guest.frontier.add("c", [link("1")])
            [lease] = await take(guest.frontier)
            ending = group.create_task(together.owner_stack.aclose())
            await together.asked_to_leave.wait()
            await guest.frontier.settle([Settlement(lease, Done(page()))])
            assert not ending.done()
        await ending
        # The folder is free, and nothing was charged to the guest.
        successor = Together(together.folder)
        owner = await successor.own()
        assert (await owner.frontier.reader.counts("c")).crashes == 0
        await successor.owner_stack.aclose()


async def test_a_guest_whose_owner_is_gone_is_told_at_once(together: Together) -> None:
    await together.own()
    together.hurry.set()
    with pytest.raises(BaseExceptionGroup) as raised:
        async with asyncio.timeout(LONGEST_S), AsyncExitStack() as stack:
            await together.join(stack)
            await together.owner_stack.aclose()
            await asyncio.sleep(LONGEST_S)
    assert raised.group_contains(OwnerLost)


async def test_an_error_in_the_work_of_a_guest_is_raised_as_it_is(together: Together) -> None:
    await together.own()
    with pytest.raises(ZeroDivisionError):
        async with AsyncExitStack() as stack:
            await together.join(stack)
            raise ZeroDivisionError


async def connected(folder: Path, line: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Joined]:
    reader, writer = await asyncio.open_unix_connection(folder / "control")
    writer.write(line + b"\n")
    return reader, writer, msgspec.json.decode(await reader.readline(), type=Joined)


async def test_another_version_is_refused_by_name(together: Together) -> None:
    await together.own()
    join = msgspec.json.encode(Join("process 1", "0.0.1"))
    _, writer, reply = await connected(together.folder, join)
    writer.close()
    assert reply.error == f"it runs Shoal {__version__}, and this command is Shoal 0.0.1: wait until it ends"


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",  # longer than any message
        b"\x00\x00\x00\x01\xc1",  # not MessagePack
        b"\x00\x00\x00\x03\x92\x01\xa1",  # no such call
        frame(NumberedCall(1, TakeLeasesCall("h", 1, 1.0, ["http"], ["mine"])))[:-3],  # cut off
    ],
)
async def test_what_is_not_a_call_ends_that_connection_and_nothing_else(
    together: Together, sent: bytes
) -> None:
    owner = await together.own()
    join = msgspec.json.encode(Join("process 1", __version__))
    reader, writer, _ = await connected(together.folder, join)
    writer.write(sent)
    writer.write_eof()
    async with asyncio.timeout(LONGEST_S):
        assert await reader.read() == b""
    writer.close()
    await owner.frontier.crawls.open("mine")
    async with AsyncExitStack() as stack:
        guest = await together.join(stack)
        assert await guest.frontier.reader.crawls() == ["mine"]


async def test_a_process_that_may_not_be_a_guest_is_refused(together: Together) -> None:
    await together.own()
    async with AsyncExitStack() as stack:
        store = await together.open_store(stack)
        with pytest.raises(StoreBusy, match="in use by process"):
            await stack.enter_async_context(store.work(stay=Stay(may_join=False)))


async def test_an_owner_that_takes_no_guests_is_waited_for_and_then_named(tmp_path: Path) -> None:
    with StoreFolder(tmp_path).owned():
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(FolderStore.open(tmp_path, create=True))
            with pytest.raises(StoreBusy, match="wait until that ends, or name another folder"):
                await stack.enter_async_context(store.work(stay=Stay(patience=lambda: 0.2)))


@pytest.mark.parametrize("reply", [None, b"", b"not a reply\n"], ids=["none in time", "closed", "not JSON"])
async def test_a_guest_that_could_not_join_leaves_no_connection(
    reply: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that answers too late would serve it, and wait for it when it ends."""
    monkeypatch.setattr(joining, "JOIN_TIMEOUT_S", 0.2)
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        if reply is not None:
            writer.write(reply)
            writer.write_eof()
        await reader.read()
        ended.set()
        writer.close()

    listener = bind_socket(tmp_path)
    async with await asyncio.start_unix_server(answer, sock=listener):
        with pytest.raises(Unavailable) as caught:
            async with join_owner(StoreFolder(tmp_path), fsync=False, leave=lambda: None):
                raise AssertionError("joined")
        async with asyncio.timeout(2):
            await ended.wait()
    assert caught
