"""The rows that one transaction writes.

Callers change the state in RAM and record here what has to follow on disk. `write` then writes everything,
table by table, so that neighbouring rows share the write of their block.

Rows of requests that have ended are deleted many at a time (`DeferredDeletes`). A database block holds about
thirty requests. They end at about the same time, but not in the same transaction, so deleting each row at
once would write the block thirty times. Instead, a transaction only records the ids (eight bytes each, in one
row), and from time to time the rows of all recorded ids are deleted, in order. Readers treat a row whose id
is recorded as deleted.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from shoal.frontier.sqlite.packing import pack_ints, unpack_ints
from shoal.frontier.sqlite.quarantine import ADD as _QUARANTINE

if TYPE_CHECKING:
    from shoal.frontier.sqlite.lane import HostState
    from shoal.frontier.sqlite.state import Batch, CrawlState

Params = tuple[object, ...]

_ADD = "INSERT INTO request(id, lane, fp, priority, request) VALUES (?, ?, ?, ?, ?)"
_PUT_BACK = "UPDATE request SET attempts = ?, crashes = ?, rests = ?, due = ?, first_at = ? WHERE id = ?"
_LANE = "INSERT INTO lane(id, crawl, host, pool) VALUES (?, ?, ?, ?)"
_FETCHED = """
    INSERT INTO parsing(
      id, lane, fp, priority, attempts, crashes, first_at, holder, request, page, strikes, taken)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 1)"""
_DIE_PARSING = """
    INSERT INTO dead(
      id, lane, fp, priority, kind, reason, status, attempts, crashes, first_at, died_at, holder,
      request, page)
    SELECT id, lane, fp, priority, ?, ?, ?, attempts, crashes, first_at, ?, holder, request, coalesce(?, page)
    FROM parsing WHERE id = ?"""
_PARSED = "DELETE FROM parsing WHERE id = ?"
_DIE = """
    INSERT INTO dead(
      id, lane, fp, priority, kind, reason, status, attempts, crashes, first_at, died_at, holder,
      request, page)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_PAGE = """
    INSERT INTO ended(crawl, fp, state, ended_at, status,
      segment, offset, length, fetched_at, items, links, etag, modified, digest, elapsed, wire_bytes, version,
      history)
    VALUES (?, ?, 'done', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_END = """
    INSERT INTO ended(crawl, fp, state, ended_at, status, rule, reason, elapsed, found_on, url,
      request)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
ATTEMPT = "INSERT INTO attempt(crawl, fp, at, elapsed, status, kind, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
_REVIVE = """
    INSERT INTO request(id, lane, fp, priority, request)
    SELECT id, lane, fp, priority, request FROM dead WHERE id = ?"""
_REPARSE = """
    INSERT INTO parsing(
      id, lane, fp, priority, attempts, crashes, first_at, holder, request, page, strikes, taken)
    SELECT id, lane, fp, priority, attempts, crashes, first_at, holder, request, page, 0, 0
    FROM dead WHERE id = ?"""
_PURGE = """
    INSERT INTO ended(crawl, fp, state, ended_at, status, rule)
    SELECT ?, fp, 'dead', died_at, status, kind FROM dead WHERE id = ?"""
_REPLACE = "UPDATE request SET lane = ?, request = ? WHERE id = ?"
_DELETE_REQUEST = "DELETE FROM request WHERE id = ?"
_DELETE_DEAD = "DELETE FROM dead WHERE id = ?"
_READMIT = "DELETE FROM ended WHERE number = ?"
_TAKE_UP = "UPDATE parsing SET taken = 1 WHERE id = ?"
_SEEN = "INSERT INTO seen(crawl, fps) VALUES (?, ?)"
_HOST = """
    INSERT INTO host(id, name, interval, burst, concurrency, crawl_delay, rest_until, slow, paused)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT(id) DO UPDATE SET interval = excluded.interval, burst = excluded.burst,
      concurrency = excluded.concurrency, crawl_delay = excluded.crawl_delay,
      rest_until = excluded.rest_until, slow = excluded.slow, paused = excluded.paused"""
_LEASE = """
    INSERT INTO lease(token, holder, granted_at, ids) VALUES (?, ?, ?, ?)
    ON CONFLICT(token) DO UPDATE SET ids = excluded.ids"""
_END_LEASE = "DELETE FROM lease WHERE token = ?"
_COUNTS = "UPDATE crawl SET counts = ? WHERE id = ?"
_CHECKPOINT = "INSERT OR REPLACE INTO checkpoint(name, value) VALUES (?, ?)"
_STATE = "INSERT OR REPLACE INTO crawl_state(crawl, key, value) VALUES (?, ?, ?)"

_json = msgspec.json.Encoder().encode


SWEEP_EVERY_ROWS = 2048  # a few milliseconds' work


class DeferredDeletes:
    def __init__(self, sweep_every: int) -> None:
        self._sweep_every = sweep_every
        self._ids: list[int] = []

    def write(self, database: sqlite3.Connection, ended: Sequence[int], *, sweep: bool) -> None:
        """Record ids of requests that have ended, or delete the rows of all recorded ids."""
        self._ids += ended
        if sweep or len(self._ids) >= self._sweep_every:
            _delete(database, self._ids)
            self._ids = []
        elif ended:
            database.execute("INSERT INTO spent(ids) VALUES (?)", (pack_ints(ended),))


def spent_ids(database: sqlite3.Connection) -> set[int]:
    return {id for [ids] in database.execute("SELECT ids FROM spent") for id in unpack_ints(ids)}


def sweep(database: sqlite3.Connection) -> None:
    """Delete the rows that an earlier owner recorded."""
    _delete(database, list(spent_ids(database)))


def _delete(database: sqlite3.Connection, ids: Sequence[int]) -> None:
    database.executemany("DELETE FROM request WHERE id = ?", [(id,) for id in sorted(ids)])
    database.execute("DELETE FROM spent")


@dataclass(slots=True)
class Changes:
    added: list[Params] = field(default_factory=list)
    put_back: list[Params] = field(default_factory=list)
    replaced: list[Params] = field(default_factory=list)  # lane and content of requests that are put back
    removed: list[int] = field(default_factory=list)
    sweep: bool = False  # whether removed rows have to be deleted now
    erased: list[tuple[int]] = field(default_factory=list)  # of them, those that may hold secrets: always now
    lanes: list[Params] = field(default_factory=list)
    fetched: list[Params] = field(default_factory=list)
    died_parsing: list[Params] = field(default_factory=list)
    parsed: list[tuple[int]] = field(default_factory=list)
    died: list[Params] = field(default_factory=list)
    pages: list[Params] = field(default_factory=list)
    ended: list[Params] = field(default_factory=list)
    attempts: list[Params] = field(default_factory=list)  # without a page
    revived: list[tuple[int]] = field(default_factory=list)  # dead letters whose request waits again
    reparsed: list[tuple[int]] = field(default_factory=list)  # dead letters whose page is parsed again
    purged: list[tuple[int, int]] = field(default_factory=list)  # crawl and id of dead letters
    readmitted: list[tuple[int]] = field(default_factory=list)  # numbers of filtered requests that wait again
    taken_up: list[tuple[int]] = field(default_factory=list)  # pages whose parsing has begun
    seen: dict[int, list[int]] = field(default_factory=dict)  # by id of the crawl
    hosts: set["HostState"] = field(default_factory=set)
    batches: set["Batch"] = field(default_factory=set)
    crawls: set["CrawlState"] = field(default_factory=set)  # whose counts changed
    checkpoints: list[Params] = field(default_factory=list)
    crawl_state: list[Params] = field(default_factory=list)
    quarantined: list[Params] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def erase_removed(self, id: int) -> None:
        """Have a request with headers or a body deleted with this transaction, if it has just ended."""
        if self.removed and self.removed[-1] == id:
            self.erased.append((id,))

    def write(self, database: sqlite3.Connection, spent: DeferredDeletes) -> None:
        """Write everything inside the caller's transaction."""
        spent.write(database, self.removed, sweep=self.sweep)
        many: Sequence[tuple[str, Sequence[Params]]] = (
            (_DELETE_REQUEST, self.erased),
            (_LANE, self.lanes),
            (_ADD, self.added),
            (_PUT_BACK, self.put_back),
            (_REPLACE, self.replaced),
            (_FETCHED, self.fetched),
            (_DIE_PARSING, self.died_parsing),
            (_PARSED, sorted(self.parsed)),
            (_DIE, self.died),
            (_PAGE, self.pages),
            (_END, self.ended),
            (ATTEMPT, self.attempts),
            (_REVIVE, self.revived),
            (_REPARSE, self.reparsed),
            (_PURGE, self.purged),
            (_DELETE_DEAD, [*self.revived, *self.reparsed, *((id,) for _, id in self.purged)]),
            (_READMIT, self.readmitted),
            (_TAKE_UP, self.taken_up),
            (_SEEN, [(crawl, pack_ints(fps)) for crawl, fps in self.seen.items()]),
            (_HOST, [_host_row(host) for host in self.hosts]),
            (_LEASE, [_lease_row(batch) for batch in self.batches if batch.held]),
            (_END_LEASE, [(batch.token,) for batch in self.batches if not batch.held]),
            (_COUNTS, [(_json(crawl.counts).decode(), crawl.id) for crawl in self.crawls]),
            (_CHECKPOINT, self.checkpoints),
            (_STATE, self.crawl_state),
            (_QUARANTINE, self.quarantined),
        )
        for statement, rows in many:
            if rows:
                database.executemany(statement, rows)


def _host_row(host: "HostState") -> Params:
    record = host.record
    return (
        host.id,
        host.name,
        record.interval,
        record.burst,
        record.concurrency,
        record.crawl_delay,
        record.rest_until,
        record.slow,
        record.paused,
    )


def _lease_row(batch: "Batch") -> Params:
    return (batch.token, batch.holder, batch.granted_at, pack_ints(batch.held))
