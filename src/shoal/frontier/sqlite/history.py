"""One request or one host, looked for in everything: slow, and no index that every page would pay for."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from shoal.frontier.results import HostView, RequestHistory, Tried
from shoal.frontier.rules import HostRecord, applied_pace
from shoal.frontier.sqlite.deferred_deletes import spent_ids
from shoal.frontier.sqlite.load import decode_terms, id_range
from shoal.frontier.sqlite.packing import unpacked, unpacked_page
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import unpack


def story(
    database: sqlite3.Connection, crawl_id: int, crawl: str, fp: int, now: float
) -> RequestHistory | None:
    """Find a request, inside a transaction of the caller's; None: the crawl has never accepted it."""
    tried = [
        Tried(at, elapsed, status, FailureClass(kind), reason)
        for at, elapsed, status, kind, reason in database.execute(
            "SELECT at, elapsed, status, kind, reason FROM attempt"
            " WHERE crawl = ? AND fp = ? ORDER BY number",
            (crawl_id, fp),
        )
    ]
    sought = _Sought(database, crawl_id, crawl, fp, tried)
    stories = (*sought.queued(now), *sought.parsing(), *sought.dead(), *sought.ended())
    return stories[0] if stories else None


@dataclass(frozen=True, slots=True)
class _Sought:
    """A request, looked for table by table."""

    database: sqlite3.Connection
    crawl_id: int
    crawl: str
    fp: int
    tried: list[Tried]

    def queued(self, now: float) -> Iterator[RequestHistory]:
        spent = spent_ids(self.database)
        leases = {id: (holder, at) for holder, at, ids in _leases(self.database) for id in ids}
        for id, due, blob in self.database.execute(
            "SELECT id, due, request FROM request WHERE id BETWEEN ? AND ? AND fp = ?",
            (*id_range(self.crawl_id), self.fp),
        ):
            if id in spent:
                continue
            holder, leased_at = leases.get(id, ("", None))
            state = "leased" if holder else "delayed" if due is not None and due > now else "waiting"
            request = unpack(blob)
            yield RequestHistory(
                self.crawl,
                self.fp,
                state,
                self.tried,
                request,
                found_on=request.found_on,
                due=due if state == "delayed" else None,
                holder=holder,
                leased_at=leased_at,
            )

    def parsing(self) -> Iterator[RequestHistory]:
        for holder, blob, page in self.database.execute(
            "SELECT holder, request, page FROM parsing WHERE id BETWEEN ? AND ? AND fp = ?",
            (*id_range(self.crawl_id), self.fp),
        ):
            request = unpack(blob)
            yield RequestHistory(
                self.crawl,
                self.fp,
                "parsing",
                self.tried,
                request,
                unpacked_page(page),
                request.found_on,
                holder=holder,
            )

    def dead(self) -> Iterator[RequestHistory]:
        for kind, reason, status, died_at, holder, blob, page in self.database.execute(
            "SELECT kind, reason, status, died_at, holder, request, page"
            " FROM dead WHERE id BETWEEN ? AND ? AND fp = ?",
            (*id_range(self.crawl_id), self.fp),
        ):
            request = unpack(blob)
            yield RequestHistory(
                self.crawl,
                self.fp,
                "dead",
                self.tried,
                request,
                None if page is None else unpacked_page(page),
                request.found_on,
                ended_at=died_at,
                status=status,
                rule=kind,
                reason=reason,
                holder=holder,
            )

    def ended(self) -> Iterator[RequestHistory]:
        for state, ended_at, rule, reason, found_on, segment, offset, length, *facts in self.database.execute(
            "SELECT state, ended_at, rule, reason, found_on, segment, offset, length,"
            " status, fetched_at, items, links, etag, modified, digest, elapsed, wire_bytes,"
            " coalesce(version, 0) FROM ended WHERE crawl = ? AND fp = ?",
            (self.crawl_id, self.fp),
        ):
            page = PageRecord(PageRef(segment, offset, length), *facts) if state == "done" else None
            yield RequestHistory(
                self.crawl,
                self.fp,
                state,
                self.tried,
                page=page,
                found_on=found_on,
                ended_at=ended_at,
                status=facts[0] or 0,
                elapsed=facts[-3] or 0.0,
                rule=rule or "",
                reason=reason or "",
            )


def _leases(database: sqlite3.Connection) -> Iterator[tuple[str, float, list[int]]]:
    for holder, granted_at, ids in database.execute("SELECT holder, granted_at, ids FROM lease"):
        yield holder, granted_at, list(unpacked(ids))


def host_at_rest(database: sqlite3.Connection, name: str) -> HostView | None:
    """Show a host with the pace that its crawls and its record come to; None: nobody has heard of it."""
    known = database.execute(
        "SELECT id, interval, burst, concurrency, crawl_delay, rest_until, slow, paused"
        " FROM host WHERE name = ?",
        (name,),
    ).fetchone()
    if known is None:
        return None
    id, *columns = known
    record = HostRecord(*columns)
    terms = [
        decode_terms(settings)
        for [settings] in database.execute(
            "SELECT DISTINCT crawl.settings FROM lane JOIN crawl ON crawl.id = lane.crawl"
            " WHERE lane.host = ? AND NOT dropped ORDER BY lane.id",
            (id,),
        )
    ]
    rules = terms[0].slowdown if terms else SlowdownRules()
    pace = applied_pace(record, [term.pace_at(name) for term in terms], rules)
    spent = spent_ids(database)
    leased = {id for _, _, ids in _leases(database) for id in ids}
    queued = {
        id
        for [id] in database.execute(
            "SELECT request.id FROM request JOIN lane ON lane.id = request.lane WHERE lane.host = ?", (id,)
        )
        if id not in spent
    }
    return HostView(
        host=name,
        waiting=len(queued - leased),
        inflight=len(queued & leased),
        interval=pace.interval,
        burst=pace.burst,
        concurrency=pace.concurrency,
        next_turn=record.rest_until,
        crawl_delay=record.crawl_delay,
        rest_until=record.rest_until,
        slow=record.slow,
        paused=bool(record.paused),
        failures=0,
    )
