"""Everything counted again: is each accepted fingerprint in exactly one place, and do the counters say so?"""

import sqlite3
from collections import Counter
from collections.abc import Iterator

from shoal.frontier.answers import STATES, Audit
from shoal.frontier.sqlite.load import decode_counts, id_range, seen_log
from shoal.frontier.sqlite.packing import unpacked
from shoal.frontier.sqlite.seen import SeenSet
from shoal.frontier.sqlite.state import ORDINAL_BITS
from shoal.model.request import trace_id

SHOWN = 20  # problems of one kind that are named one by one


def audit(database: sqlite3.Connection, crawl_id: int, now: float) -> Audit:
    """Recount one crawl, inside a transaction of the caller's."""
    [text] = database.execute("SELECT counts FROM crawl WHERE id = ?", (crawl_id,)).fetchone()
    counts = decode_counts(text)
    problems = _Problems()

    logged = sum(len(fps) for fps in seen_log(database, crawl_id))
    seen = SeenSet.of(seen_log(database, crawl_id), logged)
    if len(seen) != logged:
        problems.add(f"the log of seen fingerprints repeats {logged - len(seen)} of them")

    leased = _leased(database, crawl_id, problems)
    found: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    placed = SeenSet()
    for state, kind, fp in _places(database, crawl_id, now):
        found[state] += 1
        kinds[kind] += 1
        if fp not in seen:
            problems.add(f"{state} but never accepted: {trace_id(fp)}")
        if not placed.add(fp):
            problems.add(f"in two places, one of them {state}: {trace_id(fp)}")
    if missing := len(seen) - len(placed):
        nowhere = [trace_id(fp) for fp in seen if fp not in placed][:SHOWN]
        problems.add(f"accepted but in no place: {missing}, such as {', '.join(nowhere)}")

    found["leased"] = len(leased)
    found["waiting"] -= len(leased)
    # Which of waiting and delayed a request counts under changes with time alone; only their sum is compared.
    _compare(problems, "accepted", counts.accepted, len(seen))
    _compare(
        problems, "waiting or delayed", counts.waiting + counts.delayed, found["waiting"] + found["delayed"]
    )
    for state in STATES[2:]:
        _compare(problems, state, getattr(counts, state), found[state])
    for told, what in ((counts.dead_by_class, "dead"), (counts.filtered_by_rule, "filtered")):
        for kind in told.keys() | {kind.partition(" ")[2] for kind in kinds if kind.startswith(f"{what} ")}:
            _compare(problems, f"{what} as {kind}", told.get(kind, 0), kinds[f"{what} {kind}"])
    return Audit({state: found[state] for state in STATES}, problems.lines)


class _Problems:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._kinds: Counter[str] = Counter()

    def add(self, line: str) -> None:
        kind = line.partition(":")[0]
        self._kinds[kind] += 1
        if self._kinds[kind] <= SHOWN:
            self.lines.append(line)
        elif self._kinds[kind] == SHOWN + 1:
            self.lines.append(f"{kind}: and more")


def _compare(problems: _Problems, what: str, told: int, found: int) -> None:
    if told != found:
        problems.add(f"the counter of {what} says {told}, the data {found}")


def _leased(database: sqlite3.Connection, crawl_id: int, problems: _Problems) -> set[int]:
    leased: set[int] = set()
    for [ids] in database.execute("SELECT ids FROM lease"):
        for id in unpacked(ids):
            if id >> ORDINAL_BITS != crawl_id:
                continue
            if id in leased:
                problems.add(f"leased twice: request {id}")
            leased.add(id)
            if database.execute("SELECT 1 FROM request WHERE id = ?", (id,)).fetchone() is None:
                problems.add(f"leased but not there: request {id}")
    return leased


def _places(database: sqlite3.Connection, crawl_id: int, now: float) -> Iterator[tuple[str, str, int]]:
    """Give state, kind and fingerprint of everything that the crawl has a row for."""
    ids = id_range(crawl_id)
    yield from database.execute(
        "SELECT iif(due > ?, 'delayed', 'waiting'), '', fp FROM request WHERE id BETWEEN ? AND ?", (now, *ids)
    )
    yield from database.execute("SELECT 'parsing', '', fp FROM parsing WHERE id BETWEEN ? AND ?", ids)
    yield from database.execute("SELECT 'dead', 'dead ' || kind, fp FROM dead WHERE id BETWEEN ? AND ?", ids)
    yield from database.execute(
        "SELECT state, iif(rule IS NULL, '', 'filtered ' || rule), fp FROM ended WHERE crawl = ?", (crawl_id,)
    )
