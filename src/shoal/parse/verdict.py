"""Why a child ended, and what that means for the page it was working on. Pure."""

import signal
from enum import IntEnum, StrEnum, auto

import msgspec

from shoal.model.limits import MIB, ParseLimits


class PoisonCause(StrEnum):
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    OUTPUT = "output"
    INVALID_DATA = "junk"


class ChildExit(IntEnum):
    """Exit statuses with which a child reports what it cannot send as a result.

    User code that exits with one of them only mislabels its own failure.
    """

    DONE = 0
    RECYCLE = 81  # it uses too much memory, or is out of file descriptors: start a fresh child
    MEMORY = 82
    OUTPUT = 83
    SIGNALLED = 84
    RAISED_EXIT = 85  # a handler raised SystemExit, KeyboardInterrupt or the like
    BAD_INPUT = 86  # the data on the connection is not what the parent sent


class KillReason(StrEnum):
    """Why the parent killed a child."""

    OVERDUE = auto()
    INVALID_DATA = auto()


class Verdict(msgspec.Struct, frozen=True):
    cause: PoisonCause
    reason: str  # one line, for a person
    final: bool = False  # a retry would end the same way


def judge(status: int, kill_reason: KillReason | None, limits: ParseLimits) -> Verdict:
    """Return the verdict for an exit status (negative: the signal); `kill_reason` if the parent killed it."""
    match kill_reason:
        case KillReason.OVERDUE:
            return Verdict(PoisonCause.TIMEOUT, f"no result after {limits.wall:g} s")
        case KillReason.INVALID_DATA:
            return Verdict(PoisonCause.INVALID_DATA, "the spider wrote to Shoal's own connection")
    if status < 0:
        return _signalled(-status, limits)
    match status:
        case ChildExit.MEMORY:
            return Verdict(
                PoisonCause.OOM, f"more than {limits.memory_bytes / MIB:g} MiB of memory (parse.memory_bytes)"
            )
        case ChildExit.OUTPUT:
            reason = f"more than {limits.items} items or {limits.output_bytes / MIB:g} MiB of output"
            return Verdict(PoisonCause.OUTPUT, reason, final=True)
        case ChildExit.SIGNALLED:
            return Verdict(PoisonCause.CRASH, "the spider tried to signal a process")
        case ChildExit.RAISED_EXIT:
            return Verdict(PoisonCause.CRASH, "the spider raised SystemExit or the like")
        case ChildExit.BAD_INPUT:
            return Verdict(PoisonCause.INVALID_DATA, "the spider read from Shoal's own connection")
    return Verdict(PoisonCause.CRASH, f"the parse child ended with status {status}")


def _signalled(number: int, limits: ParseLimits) -> Verdict:
    if number == signal.SIGXCPU:
        # CPU time does not depend on the load of the machine, so a retry would end the same way.
        return Verdict(PoisonCause.TIMEOUT, f"more than {limits.cpu:g} s of CPU", final=True)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ": the system was out of memory, or the spider did it" if number == signal.SIGKILL else ""
    return Verdict(PoisonCause.CRASH, f"the parse child was killed ({name}{hint})")
