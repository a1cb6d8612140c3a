"""The calls of a guest, and how they travel: frames of MessagePack after the line that joins.

Both sides run the same version of Shoal, so messages have no version (`Join.version`).
"""

import asyncio

import msgspec

from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Lost, Misconfigured, Rejected, ShoalError, Unavailable
from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Lease, Settlement
from shoal.model.pace import Pace, TurnRequest
from shoal.model.request import Link
from shoal.stores.contract.store import StoreBusy

MAX_FRAME_BYTES = 256 << 20  # a commit has at most some 8 MB of links, but one page may have more
_LENGTH_BYTES = 4


class ClaimCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Run a crawl alone: no other process of the folder may."""

    crawl: str


class OpenCrawlCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    pace: Pace | None
    max_crashes: int | None
    slowdown: SlowdownRules | None
    host_budget: int | None
    hosts: dict[str, Pace] | None
    state: dict[str, bytes] | None


class DeleteCrawlCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    checkpoints: list[str]
    entirely: bool
    keep: int  # earlier generations that stay


class SetPausedCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    paused: bool


class SetValueCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    key: str
    value: bytes


class AddLinksCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    links: list[Link]


class ReadmitLinksCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    links: list[Link]
    rule: FailureClass = FailureClass.ROBOTS


class TakeLeasesCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    holder: str
    limit: int
    ttl: float
    pools: list[str]
    crawls: list[str] | None


class FindHeldCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    leases: list[Lease]


class KeepLeasesCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    leases: list[Lease]


class MarkLandedCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    leases: list[Lease]


class ExtendLeasesCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    leases: list[Lease]
    ttl: float


class ReclaimLeasesCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    pass


class CommitWorkCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    settlements: list[Settlement]
    acknowledgements: list[Acknowledgement]
    checkpoints: dict[str, bytes]
    crawl_state: dict[str, dict[str, bytes]]


class NextUnparsedCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str


class GetHostCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    host: str


class SetHostCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    host: str
    interval: float | None = None
    burst: int | None = None
    concurrency: int | None = None
    crawl_delay: float | None = None
    rest_until: float | None = None
    paused: bool | None = None


class ClearHostCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    host: str


class ListHostsCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """List the hosts of the crawls that the guest runs."""


class SetRobotsCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    host: str
    expires: float
    status: int
    body: bytes


class ReplayLettersCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    classes: list[FailureClass]
    host: str
    fingerprints: list[int]
    limit: int | None


class PurgeLettersCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    classes: list[FailureClass]
    host: str
    fingerprints: list[int]
    limit: int | None


class TakeTurnCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    asked: TurnRequest


class IsPausedCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    crawl: str
    host: str


Call = (
    ClaimCall
    | OpenCrawlCall
    | DeleteCrawlCall
    | SetPausedCall
    | SetValueCall
    | AddLinksCall
    | ReadmitLinksCall
    | TakeLeasesCall
    | FindHeldCall
    | KeepLeasesCall
    | MarkLandedCall
    | ExtendLeasesCall
    | ReclaimLeasesCall
    | CommitWorkCall
    | NextUnparsedCall
    | GetHostCall
    | SetHostCall
    | ClearHostCall
    | ListHostsCall
    | SetRobotsCall
    | ReplayLettersCall
    | PurgeLettersCall
    | TakeTurnCall
    | IsPausedCall
)

NO_REPLY = 0  # number of a call without a reply, and of what the owner says unasked: leave


class NumberedCall(msgspec.Struct, frozen=True, array_like=True):
    number: int
    call: Call


class CallReply(msgspec.Struct, frozen=True, array_like=True):
    number: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")  # nothing
    error: str = ""  # one line; empty: the call was carried out
    family: str = ""  # of the error


LEAVE = CallReply(NO_REPLY)

_FAMILIES: dict[str, type[ShoalError]] = {
    family.__name__: family for family in (StoreBusy, Misconfigured, Unavailable, Rejected, Lost)
}


def family_of(error: ShoalError) -> str:
    """Return the name of the family of an error, under which the guest raises it again."""
    return next((name for name, family in _FAMILIES.items() if isinstance(error, family)), "Unavailable")


def error_of(reply: CallReply) -> ShoalError:
    return _FAMILIES.get(reply.family, Unavailable)(reply.error)


_encode = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(NumberedCall).decode
decode_reply = msgspec.msgpack.Decoder(CallReply).decode


def encode_result(result: object) -> msgspec.Raw:
    return msgspec.Raw(_encode(result))


def frame(message: NumberedCall | CallReply) -> bytes:
    """Return a message as it is sent; raise `Rejected` if it is too long."""
    body = _encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise Rejected(f"a message of {len(body):,} bytes is too long for the owner of the store")
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def send(writer: asyncio.StreamWriter, message: NumberedCall | CallReply) -> None:
    """Send a message; raise `ConnectionError` if the connection is closed."""
    data = frame(message)
    try:
        if writer.is_closing():
            raise ConnectionResetError
        writer.write(data)
    except RuntimeError as error:  # uvloop, if the other side was killed a moment ago
        raise ConnectionResetError from error


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Wait for the next message; None: the connection has ended, or what came is not a message."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        return await reader.readexactly(length) if length <= MAX_FRAME_BYTES else None
    except (asyncio.IncompleteReadError, OSError):
        return None
