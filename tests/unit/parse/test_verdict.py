import signal

import pytest

from shoal.model.limits import MIB, ParseLimits
from shoal.parse.verdict import ChildExit, KillReason, PoisonCause, judge

LIMITS = ParseLimits(cpu=10, wall=15, memory_bytes=512 * MIB, items=1000, output_bytes=MIB)


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (-signal.SIGSEGV, PoisonCause.CRASH, "the parse child was killed (SIGSEGV)"),
        (-signal.SIGXCPU, PoisonCause.TIMEOUT, "more than 10 s of CPU"),
        (-200, PoisonCause.CRASH, "the parse child was killed (signal 200)"),
        (0, PoisonCause.CRASH, "the parse child ended with status 0"),
        (3, PoisonCause.CRASH, "the parse child ended with status 3"),
        (ChildExit.MEMORY, PoisonCause.OOM, "more than 512 MiB of memory (parse.memory_bytes)"),
        (ChildExit.OUTPUT, PoisonCause.OUTPUT, "more than 1000 items or 1 MiB of output"),
        (ChildExit.RAISED_EXIT, PoisonCause.CRASH, "the spider raised SystemExit or the like"),
        (ChildExit.SIGNALLED, PoisonCause.CRASH, "the spider tried to signal a process"),
        (ChildExit.BAD_INPUT, PoisonCause.INVALID_DATA, "the spider read from Shoal's own connection"),
    ],
)
def test_every_end_of_a_child_has_a_name_and_a_reason(status: int, kind: PoisonCause, reason: str) -> None:
    verdict = judge(status, None, LIMITS)

    assert (verdict.cause, verdict.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("cause", "kind"),
    [(KillReason.OVERDUE, PoisonCause.TIMEOUT), (KillReason.INVALID_DATA, PoisonCause.INVALID_DATA)],
)
def test_a_killed_child_is_judged_by_the_kill_reason(cause: KillReason, kind: PoisonCause) -> None:
    assert judge(-signal.SIGKILL, cause, LIMITS).cause == kind


def test_only_what_does_not_depend_on_the_machine_is_final() -> None:
    assert judge(-signal.SIGXCPU, None, LIMITS).final
    assert judge(ChildExit.OUTPUT, None, LIMITS).final
    assert not judge(ChildExit.MEMORY, None, LIMITS).final
    assert not judge(-signal.SIGKILL, KillReason.OVERDUE, LIMITS).final
