"""The control socket: the process that owns a folder carries out changes for other processes.

An embedded store has one owner, and only the owner can write to it. While a crawl runs, its process listens
on a Unix socket in the folder. The set of commands is closed; each is one line of JSON, answered with one
line. Only the user who owns the folder can connect: the socket has mode 0600, and there is no port.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from shoal.frontier.contract import FrontierDeadLetters
from shoal.frontier.results import HostView
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.model.request import FINGERPRINT_KEY, Link, Request, unpack
from shoal.model.spider_versions import Reparse
from shoal.stores.contract.changes import ChangeableFrontier, DirectChanges
from shoal.stores.contract.store import StoreBusy
from shoal.stores.folder.guests.server import Guests
from shoal.stores.folder.joining import Join, process_name, refusal
from shoal.stores.folder.socket_file import bind_socket, socket_address

log = logging.getLogger(__name__)

COMMAND_TIMEOUT_S = 10.0  # for a command and its reply
_MAX_LINE_BYTES = 1 << 16


class ShowHost(msgspec.Struct, frozen=True, tag="show_host"):
    host: str


class SetHostCommand(msgspec.Struct, frozen=True, tag="set_host", omit_defaults=True):
    """Change what is given and keep the rest."""

    host: str
    interval: float | None = None
    concurrency: int | None = None
    rest_until: float | None = None
    paused: bool | None = None


class ClearHostCommand(msgspec.Struct, frozen=True, tag="clear_host"):
    """Remove the pace that was set for a host."""

    host: str


class RefreshRobots(msgspec.Struct, frozen=True, tag="refresh_robots"):
    host: str


class PauseCrawl(msgspec.Struct, frozen=True, tag="pause_crawl"):
    crawl: str
    paused: bool


class NoteReparse(msgspec.Struct, frozen=True, tag="note_reparse"):
    """Record that the pages of a crawl were parsed again."""

    crawl: str
    reparse: Reparse


class AddSeeds(msgspec.Struct, frozen=True, tag="add_seeds"):
    """Add start URLs, which the sender has checked, to a crawl."""

    crawl: str
    urls: tuple[str, ...]


class Release(msgspec.Struct, frozen=True, tag="release"):
    """Queue what a crawl holds back of these patterns; without any, all of it."""

    crawl: str
    patterns: tuple[str, ...]


Command = (
    AddSeeds
    | Release
    | ShowHost
    | SetHostCommand
    | ClearHostCommand
    | RefreshRobots
    | PauseCrawl
    | NoteReparse
)
GuestCommand = Command | Join


class ControlReply(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str = ""  # empty: the command was carried out
    host: HostView | None = None
    owner: str = ""  # the process that answers, for a guest
    added: int = 0


_encode = msgspec.json.Encoder().encode
_decode_command = msgspec.json.Decoder(GuestCommand).decode
_decode_reply = msgspec.json.Decoder(ControlReply).decode


async def apply(frontier: ChangeableFrontier, command: Command) -> ControlReply:
    """Carry out a command on the frontier that this process owns."""
    changes = DirectChanges(frontier)
    match command:
        case ShowHost(host):
            return ControlReply(host=await frontier.hosts.get(host))
        case SetHostCommand():
            changed = await changes.set_host(
                command.host,
                interval=command.interval,
                concurrency=command.concurrency,
                rest_until=command.rest_until,
                paused=command.paused,
            )
            return ControlReply(host=changed)
        case ClearHostCommand(host):
            return ControlReply(host=await changes.clear_host(host))
        case RefreshRobots(host):
            await changes.refresh_robots(host)
            return ControlReply()
        case AddSeeds(crawl, urls):
            key = await frontier.reader.value(crawl, FINGERPRINT_KEY) or b""
            links = [Link.to(Request(url=url), key) for url in urls]
            return ControlReply(added=await changes.add_seeds(crawl, links))
        case Release(crawl, patterns):
            return ControlReply(added=await changes.release(crawl, patterns))
        case NoteReparse(crawl, reparse):
            await changes.note_reparse(crawl, reparse)
            return ControlReply()
        case PauseCrawl(crawl, paused):
            await (changes.pause(crawl) if paused else changes.resume(crawl))
            return ControlReply()


@asynccontextmanager
async def accept_commands(
    folder: Path, frontier: SqliteFrontier, guests: Guests, *, hurry: asyncio.Event
) -> AsyncIterator[None]:
    """Listen for commands and for guests as long as the block runs. The caller owns the store.

    After the block, guests are asked to leave. They have some seconds for that, and none once `hurry` is set
    or the block has failed.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                command = _read_command(await reader.readline())
                writer.write(_encode(await _reply_to(command, frontier)) + b"\n")
                await writer.drain()
            if isinstance(command, Join) and refusal(command) is None:
                await guests.serve(reader, writer, command.process)
        except (OSError, TimeoutError, ValueError):
            pass  # the client closed the connection, or sent nothing
        finally:
            writer.close()

    try:
        listener = bind_socket(folder)
    except OSError as error:  # not every file system has sockets; a crawl can run without
        log.warning("crawl.no_control_socket", extra={"reason": error.strerror})
        yield
        return
    server = await asyncio.start_unix_server(answer, sock=listener, limit=_MAX_LINE_BYTES)
    try:
        yield
        await guests.dismiss(hurry)
    finally:
        server.close()
        (folder / "control").unlink(missing_ok=True)
        await guests.close()


def _read_command(line: bytes) -> GuestCommand | None:
    """Return a command; None: it is not one that this version knows."""
    try:
        command: GuestCommand = _decode_command(line)
    except msgspec.MsgspecError:
        return None
    return command


async def _reply_to(command: GuestCommand | None, frontier: SqliteFrontier) -> ControlReply:
    if command is None:
        return ControlReply(error="not a command that this version of Shoal knows")
    if isinstance(command, Join):
        if command.fsync:
            frontier.require_fsync()
        return ControlReply(error=refusal(command) or "", owner=process_name())
    try:
        reply = await apply(frontier, command)
    except ShoalError as error:
        return ControlReply(error=str(error))
    if not isinstance(command, ShowHost):  # reading is no change
        log.warning("crawl.changed", extra={"command": _encode(command).decode()})
    return reply


async def send_command(folder: Path, command: Command) -> ControlReply:
    """Send a command to the owner of a folder; raise `Unavailable` if it does not listen."""
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            with socket_address(folder) as path:
                reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE_BYTES)
            try:
                writer.write(_encode(command) + b"\n")
                reply = _decode_reply(await reader.readline())
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):  # ended without a reply, or with one that is too long
        raise Unavailable(
            f"{folder} is in use by a process that takes no commands: wait until it ends"
        ) from None
    if reply.error:
        raise Misconfigured(reply.error)
    return reply


class OwnerChanges:
    """Changes that the owner of a folder carries out; see `StoreChanges`. Dead letters are not among them."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner

    async def pause(self, crawl: str) -> None:
        await send_command(self._folder, PauseCrawl(crawl, paused=True))

    async def resume(self, crawl: str) -> None:
        await send_command(self._folder, PauseCrawl(crawl, paused=False))

    async def set_host(
        self,
        host: str,
        *,
        interval: float | None = None,
        concurrency: int | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        return await self._host(SetHostCommand(host, interval, concurrency, rest_until, paused))

    async def clear_host(self, host: str) -> HostView:
        return await self._host(ClearHostCommand(host))

    async def _host(self, command: SetHostCommand | ClearHostCommand) -> HostView:
        reply = await send_command(self._folder, command)
        assert reply.host is not None, "the owner returns the host that it changed"
        return reply.host

    async def refresh_robots(self, host: str) -> None:
        await send_command(self._folder, RefreshRobots(host))

    async def add_seeds(self, crawl: str, links: Sequence[Link]) -> int:
        added = 0
        for piece in _pieces([unpack(link.packed).url for link in links]):
            added += (await send_command(self._folder, AddSeeds(crawl, piece))).added
        return added

    async def note_reparse(self, crawl: str, reparse: Reparse) -> None:
        await send_command(self._folder, NoteReparse(crawl, reparse))

    async def release(self, crawl: str, patterns: Collection[str]) -> int:
        return (await send_command(self._folder, Release(crawl, tuple(patterns)))).added

    @property
    def dead_letters(self) -> FrontierDeadLetters:
        raise StoreBusy(self._owner)


def _pieces(urls: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield URLs in pieces that fit into the line of a command."""
    piece: list[str] = []
    size = 0
    for url in urls:
        if piece and size + len(url) > _MAX_LINE_BYTES // 2:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(url)
        size += len(url) + 4
    if piece:
        yield tuple(piece)
