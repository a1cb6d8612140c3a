"""Which exit the next request of a host leaves through. Pure functions over counters.

    turn      the next exit of the list for each request of a host; connections are kept
    request   the same, and another connection for every request
    timed     the same exit for a host and a worker for `sticky` seconds; hosts change at different times
    worker    the same exit for a host and a worker until it is blocked

A sticky choice is a hash of host, worker, time and generation over the exits that are healthy (rendezvous
hashing), so another exit that rests or returns moves only the hosts that had it. The generation of a host
grows when its exit should not be used any longer (`should_rotate`): a burned session ends at once, for this
host alone.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

from shoal.model.exits.exit import SESSION_CHARS, Exit


class Rotation(StrEnum):
    TURN = "turn"
    REQUEST = "request"
    TIMED = "timed"
    WORKER = "worker"


MAX_SESSION_FAILURES = 3  # in a row


@dataclass(slots=True)
class ExitSession:
    """The use of one exit for one host since it was chosen."""

    exit: str
    started_at: float
    generation: int = 0
    requests: int = 0
    blocks: int = 0
    run: int = 0  # failures in a row
    avoid: str = ""  # the exit of the session before, if that was burned


def should_rotate(session: ExitSession, *, rotation: Rotation, sticky: float, now: float) -> bool:
    """Return whether a host should leave its exit: it was blocked there, it fails, or its time is over."""
    if rotation is Rotation.REQUEST or session.blocks > 0 or session.run >= MAX_SESSION_FAILURES:
        return True
    return rotation in (Rotation.TIMED, Rotation.TURN) and now - session.started_at >= sticky


def describe(rotation: Rotation, sticky: float) -> str:
    """Return in words how a list of exits is used."""
    match rotation:
        case Rotation.TURN:
            return "the next one for each request"
        case Rotation.REQUEST:
            return "the next one for each request, each over a new connection"
        case Rotation.TIMED:
            return f"the same one for a host for {sticky:g} s"
    return "the same one for a host and a worker"


def period(host: str, now: float, sticky: float) -> int:
    """Return the number of the period that a host is in; periods of hosts start at different times."""
    return int(now / sticky + _offset(host))


def period_start(host: str, now: float, sticky: float) -> float:
    """Return when the period that a host is in has begun."""
    return (period(host, now, sticky) - _offset(host)) * sticky


def next_session(session: ExitSession, began: float) -> ExitSession:
    """Return what follows a session that should end; a burned one raises the generation of its host."""
    if session.blocks or session.run >= MAX_SESSION_FAILURES:
        return ExitSession("", began, session.generation + 1, avoid=session.exit)
    return ExitSession("", began, session.generation)


def session_id(*parts: object) -> str:
    """Return a session name for a gateway: letters and digits only, whatever the parts have in them."""
    return f"s{_hash(*parts):016x}"[:SESSION_CHARS]


def rank(exits: Sequence[Exit], *parts: object) -> list[Exit]:
    """Return the exits in the order in which a host prefers them."""
    return sorted(exits, key=lambda exit: _hash(exit.name, *parts))


def next_in_turn(exits: Sequence[Exit], last: str, is_free: Callable[[Exit], bool]) -> Exit | None:
    """Return the first free exit after the one that was used last; exits are sorted by name."""
    start = bisect_right(exits, last, key=_name)
    for index in range(start, start + len(exits)):
        if is_free(exit := exits[index % len(exits)]):
            return exit
    return None


def _name(exit: Exit) -> str:
    return exit.name


def slice_of(exits: Sequence[Exit], number: int, count: int) -> tuple[Exit, ...]:
    """Return the part of a list for worker `number` (from 0) of `count`: no exit is in two of them.

    If there are more workers than exits, several of them share one.
    """
    ordered = sorted(exits, key=lambda exit: exit.name)
    if not ordered:
        return ()
    own = ordered[number % count :: count]
    return tuple(own or [ordered[number % len(ordered)]])


@lru_cache(maxsize=20_000)
def _offset(host: str) -> float:
    """Return by which part of a period a host is ahead of others."""
    return _hash(host) % 10_000 / 10_000


def _hash(*parts: object) -> int:
    text = "\0".join(map(str, parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
