"""Steering a crawl that runs: its process listens on a socket in the store's folder.

The embedded store has one owner, and while a crawl runs nobody else can write to it. So the owner does it for
them. The set of commands is closed, each is one line of JSON, answered with one line. Only the user who owns
the folder can connect: it is a Unix socket with mode 0600, never a port.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from shoal.frontier.results import HostView
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.model.spider_versions import KEY, Reparse, SpiderVersions
from shoal.stores.access import StoreWriter

log = logging.getLogger(__name__)

PATIENCE = 10.0  # seconds for a command and its answer
_LINE = 1 << 16
_LONGEST_PATH = 100  # bytes; the kernel's limit for the name of a socket is a little above


class ShowHost(msgspec.Struct, frozen=True, tag="show_host"):
    host: str


class SetHost(msgspec.Struct, frozen=True, tag="set_host", omit_defaults=True):
    """Change what is given and leave the rest as it is."""

    host: str
    interval: float | None = None
    concurrency: int | None = None
    rest_until: float | None = None
    paused: bool | None = None


class ClearHost(msgspec.Struct, frozen=True, tag="clear_host"):
    """Take back the pace that a host was given."""

    host: str


class PauseCrawl(msgspec.Struct, frozen=True, tag="pause_crawl"):
    crawl: str
    paused: bool


class NoteReparse(msgspec.Struct, frozen=True, tag="note_reparse"):
    """Remember with a crawl that its pages were parsed again."""

    crawl: str
    reparse: Reparse


Command = ShowHost | SetHost | ClearHost | PauseCrawl | NoteReparse


class ControlReply(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str = ""  # empty: it was done
    host: HostView | None = None


_encode = msgspec.json.Encoder().encode
_decode_command = msgspec.json.Decoder(Command).decode
_decode_answer = msgspec.json.Decoder(ControlReply).decode


async def obey(frontier: StoreWriter, command: Command) -> ControlReply:
    """Carry a command out."""
    match command:
        case ShowHost(host):
            return ControlReply(host=await frontier.hosts.get(host))
        case SetHost():
            changed = await frontier.hosts.set(
                command.host,
                interval=command.interval,
                concurrency=command.concurrency,
                rest_until=command.rest_until,
                paused=command.paused,
            )
            return ControlReply(host=changed)
        case ClearHost(host):
            return ControlReply(host=await frontier.hosts.clear(host))
        case NoteReparse(crawl, reparse):
            versions = SpiderVersions.load(await frontier.reader.value(crawl, KEY))
            versions.add_reparse(reparse)
            await frontier.crawls.set_value(crawl, KEY, versions.dump())
            return ControlReply()
        case PauseCrawl(crawl, paused):
            await (frontier.crawls.pause(crawl) if paused else frontier.crawls.resume(crawl))
            return ControlReply()


@asynccontextmanager
async def steerable(folder: Path, frontier: StoreWriter) -> AsyncIterator[None]:
    """Take commands for as long as the block runs. The caller owns the store."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(_encode(await _answered(frontier, await reader.readline())) + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # whoever asked went away, or never said anything
        finally:
            writer.close()

    try:
        listener = _bound(folder)
    except OSError as error:  # not every file system has sockets; a crawl can do without
        log.warning("crawl.not_steerable", extra={"reason": error.strerror})
        yield
        return
    server = await asyncio.start_unix_server(answer, sock=listener, limit=_LINE)
    try:
        yield
    finally:
        server.close()
        (folder / "control").unlink(missing_ok=True)


def _bound(folder: Path) -> socket.socket:
    """Make the socket, in place of one that an owner left behind that was killed."""
    (folder / "control").unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(folder) as path:
            listener.bind(path)
            os.chmod(path, 0o600)  # in time: nobody can connect before it listens
    except OSError:
        listener.close()
        raise
    return listener


async def _answered(frontier: StoreWriter, line: bytes) -> ControlReply:
    try:
        command = _decode_command(line)
        answer = await obey(frontier, command)
    except msgspec.MsgspecError:
        return ControlReply(error="not a command that this version of Shoal knows")
    except ShoalError as error:
        return ControlReply(error=str(error))
    log.warning("crawl.steered", extra={"command": _encode(command).decode()})
    return answer


async def ask(folder: Path, command: Command) -> ControlReply:
    """Have the owner of a store carry a command out; raises `Unavailable` if it takes none."""
    try:
        async with asyncio.timeout(PATIENCE):
            with _address(folder) as path:
                reader, writer = await asyncio.open_unix_connection(path, limit=_LINE)
            try:
                writer.write(_encode(command) + b"\n")
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        raise Unavailable(
            f"{folder} is in use by a process that takes no commands: wait for its end"
        ) from None
    answer = _decode_answer(line)
    if answer.error:
        raise Misconfigured(answer.error)
    return answer


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Give a path of the socket that is short enough for the kernel."""
    path = str(folder / "control")
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/control"
    finally:
        os.close(handle)
