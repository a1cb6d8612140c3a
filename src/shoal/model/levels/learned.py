"""What is learned about the level that a part of a site needs: a state machine without clock and I/O.

A part of a site is a host and a URL pattern (`pattern_of_level`). It starts at `plain`. A page that is
blocked, or an empty shell, is tried again at the next level by itself; the level of its pattern is raised
only if nothing was fetched there before, or the third page in a row fails: one challenge among many pages
must not make all of them expensive.

A raised level is probed from time to time: one page is tried below it. Two good probes in a row lower it; a
bad one doubles the wait until the next. Where the highest level fails as well, the pattern rests at `plain`:
its failures count as such, and no browser is started for them until the rest is over.

Processes collect what they see (`LevelOutcome`) and apply it to the stored record, so that all processes of a
store learn from one another.
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec

from shoal.model.levels.ladder import BROWSER, PLAIN, Cause, lower_level, next_level, rank

RAISE_RUN = 3  # failures in a row after which a level is left where pages were fetched before
REST_RUN = 5  # failures in a row at the highest level, after which the pattern rests
REST_S = 3_600.0
PROBE_PAGES = 200  # pages at a level before it is probed; doubles with each bad probe
PROBE_AFTER_S = 6 * 3_600.0  # or seconds, likewise
PROBE_S = 60.0  # for which a probe keeps other processes from probing
PROBES_TO_LOWER = 2
MAX_DOUBLINGS = 6
MAX_PATTERNS = 50  # of a host; the others share one record
OTHERS = "*"
PATTERNS_OF_HOST = 3  # raised ones, with no other, from which on new patterns of the host start higher
MAX_WHY = 200  # characters
MAX_PATTERN = 200

_digits = re.compile(r"\d+").sub


def pattern_of_level(url: str) -> str:
    """Return the part of its host that a canonical URL belongs to: its folder, with all numbers alike.

    Pages in one folder are mostly made by one template. The start page of a host is a part by itself.
    """
    address = url.partition("?")[0]
    end = address.rindex("/") + 1
    return _pattern_of_folder(address[:end], end < len(address))


@lru_cache(maxsize=1024)  # the pages of a crawl are in few folders at a time
def _pattern_of_folder(address: str, has_name: bool) -> str:
    folder, slash, _ = address.split("/", 3)[3].rpartition("/")
    return f"/{_digits('0', folder)}{slash}{OTHERS if has_name else ''}"[:MAX_PATTERN]


class LevelOutcome(msgspec.Struct, frozen=True):
    """How pages of one pattern went at one level."""

    level: str
    cause: Cause | None = None  # None: they were fetched
    why: str = ""
    count: int = 1
    probe: bool = False


class LearnedLevel(msgspec.Struct, frozen=True, omit_defaults=True):
    """The level of one pattern, and why."""

    level: str = PLAIN
    cause: Cause | None = None  # why it is not plain
    why: str = ""
    since: float = 0.0  # epoch seconds
    good: int = 0  # pages at this level
    bad: int = 0
    run: int = 0  # failures in a row
    pages: int = 0  # since the last probe
    probe_at: float = 0.0
    probes: int = 0  # bad ones in a row
    good_probes: int = 0  # in a row
    probing_until: float = 0.0  # a process probes it until then
    rest_until: float = 0.0  # no level helps: it is not raised until then
    rests: int = 0

    @property
    def is_raised(self) -> bool:
        return self.level != PLAIN

    @property
    def has_changed(self) -> bool:
        """Whether it was raised at some time: it may have been lowered since, or rest."""
        return self.is_raised or bool(self.why)


def observe(
    learned: LearnedLevel, seen: LevelOutcome, now: float, available: Collection[str]
) -> LearnedLevel:
    """Return what is known after an observation."""
    if seen.probe:
        return _probed(learned, seen, now)
    if seen.level != learned.level:
        return learned  # from before a change, or of a page that was raised alone
    if seen.cause is None:
        return msgspec.structs.replace(
            learned,
            good=learned.good + seen.count,
            pages=learned.pages + seen.count,
            run=0,
            rests=0 if learned.is_raised else learned.rests,
        )
    learned = msgspec.structs.replace(learned, bad=learned.bad + seen.count, run=learned.run + seen.count)
    if learned.rest_until > now:
        return learned
    higher = next_level(learned.level, seen.cause, available)
    if higher is not None and (not learned.good or learned.run >= RAISE_RUN):
        return raised(learned, higher, seen.cause, seen.why, now)
    if higher is None and learned.is_raised and learned.run >= REST_RUN:
        return _rested(learned, seen, now)
    return learned


def raised(learned: LearnedLevel, level: str, cause: Cause, why: str, now: float) -> LearnedLevel:
    return LearnedLevel(
        level, cause, why[:MAX_WHY], round(now, 1), probe_at=now + PROBE_AFTER_S, rests=learned.rests
    )


def probe_level(learned: LearnedLevel, now: float, available: Collection[str]) -> str | None:
    """Return the level that the next page probes; None: it is fetched at the level that was learned."""
    if not learned.is_raised or learned.cause is None or learned.probing_until > now:
        return None
    if learned.pages < PROBE_PAGES * 2**learned.probes and now < learned.probe_at:
        return None
    return lower_level(learned.level, learned.cause, available)


def begin_probe(learned: LearnedLevel, now: float) -> LearnedLevel:
    return msgspec.structs.replace(learned, probing_until=now + PROBE_S)


def _probed(learned: LearnedLevel, seen: LevelOutcome, now: float) -> LearnedLevel:
    if not learned.is_raised or rank(seen.level) >= rank(learned.level):
        return learned  # it was lowered in the meantime
    if seen.cause is not None:
        probes = min(learned.probes + 1, MAX_DOUBLINGS)
        return msgspec.structs.replace(
            learned,
            probes=probes,
            good_probes=0,
            pages=0,
            probe_at=now + PROBE_AFTER_S * 2**probes,
            probing_until=0.0,
        )
    if learned.good_probes + 1 < PROBES_TO_LOWER:
        return msgspec.structs.replace(
            learned, good_probes=learned.good_probes + 1, probe_at=now, probing_until=0.0
        )
    why = f"{PROBES_TO_LOWER} pages in a row were fetched below {learned.level}"
    cause = None if seen.level == PLAIN else learned.cause
    return LearnedLevel(
        seen.level, cause, why, round(now, 1), good=PROBES_TO_LOWER, probe_at=now + PROBE_AFTER_S
    )


def _rested(learned: LearnedLevel, seen: LevelOutcome, now: float) -> LearnedLevel:
    did = (
        "shows nothing either"
        if learned.level == BROWSER and seen.cause is Cause.EMPTY_SHELL
        else "is blocked, too"
    )
    return LearnedLevel(
        since=round(now, 1),
        why=f"{learned.level} {did}: {seen.why}"[:MAX_WHY],
        rest_until=now + REST_S * 2 ** min(learned.rests, MAX_DOUBLINGS),
        rests=learned.rests + 1,
    )


class HostLevels(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one host, as a store keeps it."""

    patterns: dict[str, LearnedLevel] = {}
    pin: str = ""  # the level that an operator has set; empty: learned
    changed_at: float = 0.0

    def at(self, pattern: str) -> LearnedLevel:
        """Return what is known of a pattern; a new one starts as all others of its host are."""
        known = self.patterns.get(pattern)
        if known is None and len(self.patterns) >= MAX_PATTERNS:
            known = self.patterns.get(OTHERS)
        return known or inherited(self.patterns)

    def before(self, pattern: str, seen: LevelOutcome, now: float) -> LearnedLevel:
        """Return what is known of a pattern, to which an observation is then applied.

        The first page of a pattern is tried at the level that the other patterns of its host have then. They
        may have changed when it ends. It says nothing about levels below its own: the pattern starts there.
        """
        known = self.at(pattern)
        if pattern in self.patterns or seen.probe or rank(seen.level) <= rank(known.level):
            return known
        if len(self.patterns) >= MAX_PATTERNS:  # it shares a record with others
            return known
        cause = Cause.EMPTY_SHELL if seen.level == BROWSER else Cause.ANTI_BOT
        return raised(
            known, seen.level, cause, "so were other parts of the host when it was first tried", now
        )

    def with_pattern(self, pattern: str, learned: LearnedLevel, now: float) -> "HostLevels":
        if pattern not in self.patterns and len(self.patterns) >= MAX_PATTERNS:
            pattern = OTHERS
        patterns = {**self.patterns, pattern: learned}
        return msgspec.structs.replace(self, patterns=patterns, changed_at=round(now, 1))


def inherited(patterns: Mapping[str, LearnedLevel]) -> LearnedLevel:
    """Return what a new pattern starts with: raised, if at least three others are and none is plain."""
    if len(patterns) < PATTERNS_OF_HOST or not all(one.is_raised for one in patterns.values()):
        return LearnedLevel()
    lowest = min(patterns.values(), key=lambda one: rank(one.level))
    why = f"so are all {len(patterns)} other parts of the host that were tried"
    return LearnedLevel(lowest.level, lowest.cause, why, lowest.since, probe_at=lowest.probe_at)
