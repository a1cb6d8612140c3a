"""The audit: is each accepted fingerprint in exactly one place, and do the counters agree with the data?"""

import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator

from shoal.frontier.results import STORED_STATES, Audit, shown_states
from shoal.frontier.sqlite.changes import spent_ids
from shoal.frontier.sqlite.load import decode_counts, id_range, seen_log
from shoal.frontier.sqlite.packing import unpack_ints
from shoal.frontier.sqlite.seen import SeenSet
from shoal.frontier.sqlite.state import ORDINAL_BITS, CrawlState, FrontierState
from shoal.model.errors import Rejected
from shoal.model.request import trace_id, unpack

OPEN_TABLES = (("request", "waiting"), ("parsing", "parsing"), ("dead", "dead"))  # with a packed request
MAX_LINES = 20  # problems of one kind that are listed one by one


def audit(database: sqlite3.Connection, crawl_id: int, now: float) -> Audit:
    """Recount one crawl inside the caller's transaction."""
    [text] = database.execute("SELECT counts FROM crawl WHERE id = ?", (crawl_id,)).fetchone()
    counts = decode_counts(text)
    problems = _Problems()

    logged = sum(len(fps) for fps in seen_log(database, crawl_id))
    seen = SeenSet.of(seen_log(database, crawl_id), logged)
    if len(seen) != logged:
        problems.add(f"the log of seen fingerprints repeats {logged - len(seen)} of them")

    leased = _leased(database, crawl_id, problems)
    found: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    placed = array("q")
    for state, state_and_class, fp in places(database, crawl_id, now):
        found[state] += 1
        if state_and_class:
            classes[state_and_class] += 1
        placed.append(fp)
    lost: list[int] = []
    if len(placed) != logged or not seen.same_as(SeenSet.of([placed], logged)):
        lost = _explain(problems, seen, places(database, crawl_id, now))
    lost_number = max(len(lost), counts.lost)
    if lost_number:
        problems.add(f"{lost_number} requests are lost: they were accepted, and are in no state")
    _check_rows(database, crawl_id, problems)

    found["leased"] = len(leased)
    found["waiting"] -= len(leased)
    # A delayed request becomes a waiting one without a write; so only the sum of the two is compared.
    _compare(problems, "accepted", counts.accepted, len(seen))
    _compare(
        problems, "waiting or delayed", counts.waiting + counts.delayed, found["waiting"] + found["delayed"]
    )
    for state in STORED_STATES[2:]:
        _compare(problems, state, getattr(counts, state), found[state])
    for counted, what in ((counts.dead_by_class, "dead"), (counts.filtered_by_rule, "filtered")):
        present = {name.partition(" ")[2] for name in classes if name.startswith(f"{what} ")}
        for name in counted.keys() | present:
            _compare(problems, f"{what} as {name}", counted.get(name, 0), classes[f"{what} {name}"])
    shown = shown_states({state: found[state] for state in STORED_STATES}, held=classes["filtered held"])
    return Audit(shown, problems.lines, lost_number)


def _explain(problems: "_Problems", seen: SeenSet, places: Iterable[tuple[str, str, int]]) -> list[int]:
    """List the fingerprints that are in no place, in two, or in one without having been accepted.

    Return those that are in no place.
    """
    placed = SeenSet()
    for state, _, fp in places:
        if fp not in seen:
            problems.add(f"{state} but never accepted: {trace_id(fp)}")
        if not placed.add(fp):
            problems.add(f"in two places, one of them {state}: {trace_id(fp)}")
    lost = [fp for fp in seen if fp not in placed]
    for fp in lost:
        problems.add(f"accepted but in no place: {trace_id(fp)}")
    return lost


def _check_rows(database: sqlite3.Connection, crawl_id: int, problems: "_Problems") -> None:
    """Find rows that cannot be read, or whose lane or host does not exist: no worker could be given them."""
    for table, state in OPEN_TABLES:
        for fp, packed, host in database.execute(
            f"SELECT fp, request, host.name FROM {table} LEFT JOIN lane ON lane.id = {table}.lane"  # noqa: S608
            f" LEFT JOIN host ON host.id = lane.host WHERE {table}.id BETWEEN ? AND ?",
            id_range(crawl_id),
        ):
            if host is None:
                problems.add(f"{state} in a lane that does not exist: {trace_id(fp)}")
            try:
                unpack(packed)
            except (Rejected, ValueError, TypeError) as error:
                problems.add(f"an entry that cannot be read: {state} {trace_id(fp)}: {error}")


def audit_state(state: FrontierState, crawl: CrawlState) -> list[str]:
    """Compare the state in RAM with its counters, and find lanes that would never be served."""
    problems = _Problems()
    counts = crawl.counts
    lanes = [lane for host in state.hosts.values() for lane in host.lanes if lane.crawl is crawl]
    for what, counted, found in (
        ("accepted", counts.accepted, len(crawl.seen)),
        ("waiting", counts.waiting, sum(lane.size for lane in lanes)),
        ("delayed", counts.delayed, len(crawl.delayed)),
        ("leased", counts.leased, len(crawl.out)),
        ("parsing", counts.parsing, len(crawl.parsing)),
    ):
        _compare(problems, f"{what} in RAM", counted, found)
    inflight = Counter(
        held.lane.host for other in state.crawls.values() for held in other.out.values() if not held.landed
    )
    for host in {lane.host for lane in lanes}:
        _compare(problems, f"{host.name} in flight", host.inflight, inflight[host])
    rosters = [*crawl.rosters.values(), *crawl.suspects.values()]
    cooling = {id(ticket) for roster in rosters for ticket in roster.cooling}
    eligible = {id(ticket) for roster in rosters for ticket in roster.eligible}
    for lane in lanes:
        if lane.ticket is not None:
            placed = id(lane.ticket) in (cooling if lane.cooling else eligible)
        else:
            placed = lane.size == 0 or not lane.host.open
        if not placed:
            problems.add(f"a lane is in no place: {lane.host.name} {lane.pool}")
    return problems.lines


class _Problems:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._kinds: Counter[str] = Counter()

    def add(self, line: str) -> None:
        kind = line.partition(":")[0]
        self._kinds[kind] += 1
        if self._kinds[kind] <= MAX_LINES:
            self.lines.append(line)
        elif self._kinds[kind] == MAX_LINES + 1:
            self.lines.append(f"{kind}: and more")


def _compare(problems: _Problems, what: str, counted: int, found: int) -> None:
    if counted != found:
        problems.add(f"the counter of {what} says {counted}, the data {found}")


def orphaned_crawls(database: sqlite3.Connection) -> list[int]:
    """Return the ids of crawls that have rows and are not listed any more."""
    found = database.execute(
        f"SELECT DISTINCT id >> {ORDINAL_BITS} FROM request UNION SELECT DISTINCT crawl FROM seen"  # noqa: S608
        " UNION SELECT DISTINCT crawl FROM ended EXCEPT SELECT id FROM crawl"
    )
    return sorted(id for [id] in found)


def _leased(database: sqlite3.Connection, crawl_id: int, problems: _Problems) -> set[int]:
    leased: set[int] = set()
    for [ids] in database.execute("SELECT ids FROM lease"):
        for id in unpack_ints(ids):
            if id >> ORDINAL_BITS != crawl_id:
                continue
            if id in leased:
                problems.add(f"leased twice: request {id}")
            leased.add(id)
            if database.execute("SELECT 1 FROM request WHERE id = ?", (id,)).fetchone() is None:
                problems.add(f"leased but not there: request {id}")
    return leased


def places(database: sqlite3.Connection, crawl_id: int, now: float) -> Iterator[tuple[str, str, int]]:
    """Yield state, failure class and fingerprint of every row of the crawl."""
    ids = id_range(crawl_id)
    spent = spent_ids(database)
    for id, state, fp in database.execute(
        "SELECT id, iif(due > ?, 'delayed', 'waiting'), fp FROM request WHERE id BETWEEN ? AND ?", (now, *ids)
    ):
        if id not in spent:
            yield state, "", fp
    yield from database.execute("SELECT 'parsing', '', fp FROM parsing WHERE id BETWEEN ? AND ?", ids)
    yield from database.execute("SELECT 'dead', 'dead ' || kind, fp FROM dead WHERE id BETWEEN ? AND ?", ids)
    yield from database.execute(
        "SELECT state, iif(rule IS NULL, '', state || ' ' || rule), fp FROM ended WHERE crawl = ?",
        (crawl_id,),
    )
