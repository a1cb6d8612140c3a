"""The history of one request: a scan of all tables, since an index by fingerprint would slow every page.

And the list of all requests, a few rows at a time: no read transaction lasts and holds up the owner.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec

from shoal.frontier.generations import Generation, split_generations
from shoal.frontier.results import ListedRequest, RequestHistory, Tried
from shoal.frontier.sqlite.changes import spent_ids
from shoal.frontier.sqlite.load import id_range
from shoal.frontier.sqlite.packing import unpack_ints, unpack_page
from shoal.model.crawl_totals import BEGAN
from shoal.model.errors import Rejected
from shoal.model.failure import FailureClass, split_text
from shoal.model.generations.page_history import PageFate, PageHistory, is_done, pack_history
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Request, unpack_stored
from shoal.model.url import host_key


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


class _Search(msgspec.Struct, frozen=True):
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
                reason=split_text(reason)[0],
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


Rows = Callable[[str, tuple[object, ...]], Sequence[Any]]

CHUNK_ROWS = 256
QUEUED = frozenset({"waiting", "delayed", "leased"})
ENDED = ("gone", "filtered")
_ENDED = (
    "SELECT number, fp, state, ended_at, status, rule, reason, url FROM ended WHERE number > ? AND crawl = ?"
)


def list_requests(
    database: sqlite3.Connection, rows: Rows, crawl: int, states: Collection[str], now: float
) -> Iterator[ListedRequest]:
    """Yield the requests of a crawl in these states; `rows` runs a query."""
    wanted = set(states)
    if wanted & QUEUED:
        yield from (one for one in _queued(database, rows, crawl, now) if one.state in wanted)
    if "parsing" in wanted:
        yield from _parsing(rows, crawl)
    if "dead" in wanted:
        yield from _dead(rows, crawl)
    if ended := [state for state in ENDED if state in wanted]:
        yield from _ended(rows, crawl, ended)


def _in_chunks(rows: Rows, query: str, first: int, *params: object) -> Iterator[Any]:
    """Yield the rows of a query whose first column is greater than its first parameter, in order of it."""
    while found := rows(query, (first, *params, CHUNK_ROWS)):
        yield from found
        first = found[-1][0]


def _queued(database: sqlite3.Connection, rows: Rows, crawl: int, now: float) -> Iterator[ListedRequest]:
    first, last = id_range(crawl)
    spent = spent_ids(database)
    leased = {id: at for _, at, ids in read_leases(database) for id in ids}
    query = (
        "SELECT id, fp, attempts + rests, due, first_at, request FROM request"
        " WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
    )
    for id, fp, attempts, due, first_at, blob in _in_chunks(rows, query, first - 1, last):
        if id in spent:
            continue
        state = "leased" if id in leased else "delayed" if due is not None and due > now else "waiting"
        at = leased.get(id) if state == "leased" else due if state == "delayed" else first_at
        yield _listed(fp, state, unpack_stored(blob), attempts=attempts, at=at)


def _parsing(rows: Rows, crawl: int) -> Iterator[ListedRequest]:
    first, last = id_range(crawl)
    query = "SELECT id, fp, attempts, request, page FROM parsing WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
    for _, fp, attempts, blob, page in _in_chunks(rows, query, first - 1, last):
        try:
            record = unpack_page(page)
            status, at = record.status, record.fetched_at
        except (Rejected, msgspec.DecodeError, TypeError, ValueError):
            status, at = 0, None
        yield _listed(fp, "parsing", unpack_stored(blob), attempts=attempts, at=at, status=status)


def _dead(rows: Rows, crawl: int) -> Iterator[ListedRequest]:
    first, last = id_range(crawl)
    query = (
        "SELECT id, fp, attempts, died_at, status, kind, reason, request FROM dead"
        " WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
    )
    for _, fp, attempts, at, status, kind, reason, blob in _in_chunks(rows, query, first - 1, last):
        facts = {"status": status, "rule": kind, "reason": split_text(str(reason))[0]}
        yield _listed(fp, "dead", unpack_stored(blob), attempts=attempts, at=at, **facts)


def _ended(rows: Rows, crawl: int, states: Sequence[str]) -> Iterator[ListedRequest]:
    marks = ", ".join("?" * len(states))
    query = f"{_ENDED} AND state IN ({marks}) ORDER BY number LIMIT ?"
    for _, fp, state, at, status, rule, reason, url in _in_chunks(rows, query, 0, crawl, *states):
        yield ListedRequest(
            fingerprint=fp,
            state=state,
            url=url or "",
            host=host_key(url) if url else "",
            attempts=1 if state == "gone" else 0,
            status=status or 0,
            at=at,
            rule=rule or "",
            reason=reason or "",
        )


def _listed(fp: int, state: str, request: Request, **facts: Any) -> ListedRequest:
    url = request.url
    host = host_key(url) if url else ""
    return ListedRequest(fingerprint=fp, state=state, url=url, method=request.method, host=host, **facts)


# --- earlier generations ------------------------------------------------------------------------------------

_ADD = "INSERT OR REPLACE INTO page_history(crawl, generation, fp, history) VALUES (?, ?, ?, ?)"


def end_generation(database: sqlite3.Connection, crawl: int, *, finished: bool, keep: int) -> None:
    """Turn the requests of a crawl that have ended into an earlier generation; keep only so many of these."""
    number = current_generation(database, crawl)
    if keep:
        # Sorted, so that the index is written from left to right, once, and never during a crawl.
        database.execute(
            "INSERT OR REPLACE INTO page_history(crawl, generation, fp, history)"
            " SELECT crawl, ?, fp, history FROM ended"
            " WHERE crawl = ? AND state = 'done' AND history IS NOT NULL ORDER BY fp",
            (number, crawl),
        )
        database.executemany(
            _ADD, [(crawl, number, fp, packed) for fp, packed in _without_page(database, crawl)]
        )
    began = database.execute(
        "SELECT value FROM crawl_state WHERE crawl = ? AND key = ?", (crawl, BEGAN)
    ).fetchone()
    database.execute(
        "INSERT OR REPLACE INTO generation(crawl, number, began, finished) VALUES (?, ?, ?, ?)",
        (crawl, number, float(began[0]) if began else 0.0, finished),
    )
    database.execute("UPDATE crawl SET generation = ? WHERE id = ?", (number + 1, crawl))
    _, dropped = split_generations(earlier_generations(database, crawl), keep)
    for generation in dropped:
        for table, column in (("page_history", "generation"), ("generation", "number")):
            database.execute(
                f"DELETE FROM {table} WHERE crawl = ? AND {column} = ?",  # noqa: S608
                (crawl, generation.number),
            )


def drop_generations(database: sqlite3.Connection, crawl: int) -> None:
    database.execute("DELETE FROM page_history WHERE crawl = ?", (crawl,))
    database.execute("DELETE FROM generation WHERE crawl = ?", (crawl,))


def current_generation(database: sqlite3.Connection, crawl: int) -> int:
    [number] = database.execute("SELECT generation FROM crawl WHERE id = ?", (crawl,)).fetchone()
    return int(number)


def earlier_generations(database: sqlite3.Connection, crawl: int) -> list[Generation]:
    """Return the generations that have ended, oldest first."""
    return [
        Generation(number, began, bool(finished))
        for number, began, finished in database.execute(
            "SELECT number, began, finished FROM generation WHERE crawl = ? ORDER BY number", (crawl,)
        )
    ]


def find_done(
    database: sqlite3.Connection, crawl: int, numbers: Sequence[int], fps: Sequence[int]
) -> dict[int, bytes]:
    """Return the records of pages, each of the latest of these generations that has fetched it."""
    found: dict[int, bytes] = {}
    for number in reversed(numbers):
        left = [fp for fp in fps if fp not in found]
        # One statement for any number of pages: it is compiled once.
        rows = database.execute(
            "SELECT fp, history FROM page_history"
            " WHERE crawl = ? AND generation = ? AND fp IN (SELECT value FROM json_each(?))",
            (crawl, number, msgspec.json.encode(left).decode()),
        )
        found.update((fp, bytes(history)) for fp, history in rows if is_done(history))
    return found


def histories(database: sqlite3.Connection, crawl: int, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield fingerprint and record of every request that ended in a generation."""
    if number != current_generation(database, crawl):
        yield from database.execute(
            "SELECT fp, history FROM page_history WHERE crawl = ? AND generation = ?", (crawl, number)
        )
        return
    yield from database.execute(
        "SELECT fp, history FROM ended WHERE crawl = ? AND state = 'done' AND history IS NOT NULL", (crawl,)
    )
    yield from _without_page(database, crawl)


def _without_page(database: sqlite3.Connection, crawl: int) -> Iterator[tuple[int, bytes]]:
    """Yield the requests of the current generation that ended without a page."""
    for fp, state, status, at in database.execute(
        "SELECT fp, state, coalesce(status, 0), ended_at FROM ended"
        " WHERE crawl = ? AND state IN ('gone', 'dead')"
        " UNION ALL SELECT fp, 'dead', status, died_at FROM dead WHERE id BETWEEN ? AND ? ORDER BY fp",
        (crawl, *id_range(crawl)),
    ):
        fate = PageFate.GONE if state == "gone" else PageFate.DEAD
        yield fp, pack_history(PageHistory(fate, status, checked_at=int(at)))
