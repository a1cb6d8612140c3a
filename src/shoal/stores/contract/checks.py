"""Findings about the health of a store or a machine, each with what to do about it."""

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class StoreHealth:
    folder: str  # on this machine, for the files of its crawls
    checks: Sequence[Check] = ()
    last_write: float = 0.0  # epoch seconds; 0: unknown


def check(name: str, finding: str, fail: bool = False, *, warn: bool = False, fix: str) -> Check:
    """Grade a finding; the fix is only kept where the grade is not OK."""
    grade = Grade.FAIL if fail else Grade.WARN if warn else Grade.OK
    return Check(name, grade, finding, "" if grade is Grade.OK else fix)


def at_least(name: str, found: int, bounds: tuple[int, int], finding: str, fix: str) -> Check:
    """Grade a quantity: below the first bound it fails, below the second it warns."""
    return check(name, finding, found < bounds[0], warn=found < bounds[1], fix=fix)
