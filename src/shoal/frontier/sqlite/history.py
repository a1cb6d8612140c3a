"""The history of one request: a scan of all tables, since an index by fingerprint would slow every page."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from shoal.frontier.results import RequestHistory, Tried
from shoal.frontier.sqlite.changes import spent_ids
from shoal.frontier.sqlite.load import id_range
from shoal.frontier.sqlite.packing import unpack_ints, unpack_page
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import unpack_stored


def find_history(
    database: sqlite3.Connection, crawl_id: int, crawl: str, fp: int, now: float
) -> RequestHistory | None:
    """Find a request, inside the caller's transaction; return None if the crawl never accepted it."""
    tried = [
        Tried(at, elapsed, status, FailureClass(kind), reason)
        for at, elapsed, status, kind, reason in database.execute(
            "SELECT at, elapsed, status, kind, reason FROM attempt"
            " WHERE crawl = ? AND fp = ? ORDER BY number",
            (crawl_id, fp),
        )
    ]
    search = _Search(database, crawl_id, crawl, fp, tried)
    found = (*search.queued(now), *search.parsing(), *search.dead(), *search.ended())
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for one request, table by table."""

    database: sqlite3.Connection
    crawl_id: int
    crawl: str
    fp: int
    tried: list[Tried]

    def queued(self, now: float) -> Iterator[RequestHistory]:
        spent = spent_ids(self.database)
        leases = {id: (holder, at) for holder, at, ids in read_leases(self.database) for id in ids}
        for id, due, blob in self.database.execute(
            "SELECT id, due, request FROM request WHERE id BETWEEN ? AND ? AND fp = ?",
            (*id_range(self.crawl_id), self.fp),
        ):
            if id in spent:
                continue
            holder, leased_at = leases.get(id, ("", None))
            state = "leased" if holder else "delayed" if due is not None and due > now else "waiting"
            request = unpack_stored(blob)
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
            request = unpack_stored(blob)
            yield RequestHistory(
                self.crawl,
                self.fp,
                "parsing",
                self.tried,
                request,
                unpack_page(page),
                request.found_on,
                holder=holder,
            )

    def dead(self) -> Iterator[RequestHistory]:
        for kind, reason, status, died_at, holder, blob, page in self.database.execute(
            "SELECT kind, reason, status, died_at, holder, request, page"
            " FROM dead WHERE id BETWEEN ? AND ? AND fp = ?",
            (*id_range(self.crawl_id), self.fp),
        ):
            request = unpack_stored(blob)
            yield RequestHistory(
                self.crawl,
                self.fp,
                "dead",
                self.tried,
                request,
                None if page is None else unpack_page(page),
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


def read_leases(database: sqlite3.Connection) -> Iterator[tuple[str, float, list[int]]]:
    for holder, granted_at, ids in database.execute("SELECT holder, granted_at, ids FROM lease"):
        yield holder, granted_at, list(unpack_ints(ids))
