"""One thing that was looked at, how it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    grade: Grade
    finding: str
    fix: str = ""  # what to do about it


def check(name: str, finding: str, fail: bool = False, *, warn: bool = False, fix: str) -> Check:
    """Grade a finding; the fix is told only where it is wanted."""
    grade = Grade.FAIL if fail else Grade.WARN if warn else Grade.OK
    return Check(name, grade, finding, "" if grade is Grade.OK else fix)


def least(name: str, found: int, bounds: tuple[int, int], finding: str, fix: str) -> Check:
    """Grade something of which there may be too little: below the first of the bounds, or the second."""
    return check(name, finding, found < bounds[0], warn=found < bounds[1], fix=fix)
