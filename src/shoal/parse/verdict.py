"""What the end of a child says about the page it was working on. Pure."""

import signal
from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto

from shoal.model.limits import MIB, ParseLimits


class PoisonKind(StrEnum):
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    OUTPUT = "output"
    JUNK = "junk"


class ChildExit(IntEnum):
    """How a child says what it cannot say in a result. User code that says it only mislabels itself."""

    DONE = 0
    WORN = 81  # grown, or out of file descriptors: a fresh child does better
    MEMORY = 82
    OUTPUT = 83
    SIGNALLED = 84
    LEFT = 85  # SystemExit, KeyboardInterrupt and the like out of a handler
    CONFUSED = 86  # the connection no longer carries what the parent sent


class Cause(StrEnum):
    """Why the parent itself ended a child."""

    OVERDUE = auto()
    JUNK = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: PoisonKind
    reason: str  # one line, for a person
    final: bool = False  # the page would do the same again: no second try


def judge(status: int, cause: Cause | None, limits: ParseLimits) -> Verdict:
    """Explain an exit status (negative: the signal), given what the parent did to the child, if anything."""
    match cause:
        case Cause.OVERDUE:
            return Verdict(PoisonKind.TIMEOUT, f"no result after {limits.wall:g} s")
        case Cause.JUNK:
            return Verdict(PoisonKind.JUNK, "the spider wrote to Shoal's own connection")
    if status < 0:
        return _signalled(-status, limits)
    match status:
        case ChildExit.MEMORY:
            return Verdict(PoisonKind.OOM, f"more than {limits.memory_bytes / MIB:g} MiB of memory")
        case ChildExit.OUTPUT:
            reason = f"more than {limits.items} items or {limits.output_bytes / MIB:g} MiB of output"
            return Verdict(PoisonKind.OUTPUT, reason, final=True)
        case ChildExit.SIGNALLED:
            return Verdict(PoisonKind.CRASH, "the spider tried to signal a process")
        case ChildExit.LEFT:
            return Verdict(PoisonKind.CRASH, "the spider raised SystemExit or the like")
        case ChildExit.CONFUSED:
            return Verdict(PoisonKind.JUNK, "the spider read from Shoal's own connection")
    return Verdict(PoisonKind.CRASH, f"the parse child ended with status {status}")


def _signalled(number: int, limits: ParseLimits) -> Verdict:
    if number == signal.SIGXCPU:
        # CPU seconds do not depend on how busy the machine is: once is proof.
        return Verdict(PoisonKind.TIMEOUT, f"more than {limits.cpu:g} s of CPU", final=True)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ", by the system for want of memory or by itself" if number == signal.SIGKILL else ""
    return Verdict(PoisonKind.CRASH, f"the parse child was killed ({name}{hint})")
