"""The control socket: the process that owns a folder carries out changes for other processes.

An embedded store has one owner, and only the owner can write to it. While a crawl runs, its process listens
on a Unix socket in the folder. The set of commands is closed; each is one line of JSON, answered with one
line. Only the user who owns the folder can connect: the socket has mode 0600, and there is no port.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from shoal.frontier.contract import FrontierDeadLetters
from shoal.frontier.results import HostView
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.model.spider_versions import Reparse
from shoal.stores.contract.changes import ChangeableFrontier, DirectChanges
from shoal.stores.contract.store import StoreBusy

log = logging.getLogger(__name__)

COMMAND_TIMEOUT_S = 10.0  # for a command and its reply
_MAX_LINE_BYTES = 1 << 16
_MAX_PATH_BYTES = 100  # the kernel's limit for the name of a socket is a little above


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


Command = ShowHost | SetHostCommand | ClearHostCommand | RefreshRobots | PauseCrawl | NoteReparse


class ControlReply(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str = ""  # empty: the command was carried out
    host: HostView | None = None


_encode = msgspec.json.Encoder().encode
_decode_command = msgspec.json.Decoder(Command).decode
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
        case NoteReparse(crawl, reparse):
            await changes.note_reparse(crawl, reparse)
            return ControlReply()
        case PauseCrawl(crawl, paused):
            await (changes.pause(crawl) if paused else changes.resume(crawl))
            return ControlReply()


@asynccontextmanager
async def accept_commands(folder: Path, frontier: ChangeableFrontier) -> AsyncIterator[None]:
    """Listen for commands for as long as the block runs. The caller owns the store."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                writer.write(_encode(await _reply_to(await reader.readline(), frontier)) + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # the client closed the connection, or sent nothing
        finally:
            writer.close()

    try:
        listener = _bind(folder)
    except OSError as error:  # not every file system has sockets; a crawl can run without
        log.warning("crawl.no_control_socket", extra={"reason": error.strerror})
        yield
        return
    server = await asyncio.start_unix_server(answer, sock=listener, limit=_MAX_LINE_BYTES)
    try:
        yield
    finally:
        server.close()
        (folder / "control").unlink(missing_ok=True)


def _bind(folder: Path) -> socket.socket:
    """Create the socket, in place of one that a killed owner left behind."""
    (folder / "control").unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(folder) as path:
            listener.bind(path)
            os.chmod(path, 0o600)  # before it listens: until then no client can connect
    except OSError:
        listener.close()
        raise
    return listener


async def _reply_to(line: bytes, frontier: ChangeableFrontier) -> ControlReply:
    try:
        command = _decode_command(line)
        reply = await apply(frontier, command)
    except msgspec.MsgspecError:
        return ControlReply(error="not a command that this version of Shoal knows")
    except ShoalError as error:
        return ControlReply(error=str(error))
    log.warning("crawl.changed", extra={"command": _encode(command).decode()})
    return reply


async def send_command(folder: Path, command: Command) -> ControlReply:
    """Send a command to the owner of a folder; raise `Unavailable` if it does not listen."""
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            with _address(folder) as path:
                reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE_BYTES)
            try:
                writer.write(_encode(command) + b"\n")
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        raise Unavailable(
            f"{folder} is in use by a process that takes no commands: wait until it ends"
        ) from None
    reply = _decode_reply(line)
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

    async def note_reparse(self, crawl: str, reparse: Reparse) -> None:
        await send_command(self._folder, NoteReparse(crawl, reparse))

    @property
    def dead_letters(self) -> FrontierDeadLetters:
        raise StoreBusy(self._owner)


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Return a path of the socket that is short enough for the kernel."""
    path = str(folder / "control")
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield path
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/control"
    finally:
        os.close(handle)
