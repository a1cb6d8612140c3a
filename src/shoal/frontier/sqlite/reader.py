"""Reading a store, by its owner or by another process."""

import asyncio
import logging
import math
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from shoal.frontier.generations import Generation
from shoal.frontier.results import (
    Audit,
    Counts,
    CrawlStats,
    DeadLetter,
    HostQueue,
    HostView,
    LetterPosition,
    ListedRequest,
    RequestHistory,
    StoredRobots,
)
from shoal.frontier.sqlite import quarantine
from shoal.frontier.sqlite.audit import audit, audit_state, orphaned_crawls
from shoal.frontier.sqlite.history import (
    current_generation,
    earlier_generations,
    find_done,
    find_history,
    histories,
    list_held,
    list_requests,
)
from shoal.frontier.sqlite.leases import promote
from shoal.frontier.sqlite.load import decode_counts, id_range
from shoal.frontier.sqlite.owner import Owner
from shoal.frontier.sqlite.packing import unpack_page
from shoal.frontier.sqlite.state import ORDINAL_BITS
from shoal.frontier.sqlite.stats import crawl_stats, stored_host, waiting_by_pool
from shoal.model.crawl_totals import BEGAN
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import FailureClass, split_text
from shoal.model.page import PageRecord, PageRef
from shoal.model.quarantine import QuarantinedEntry
from shoal.model.request import Link, unpack
from shoal.sqlite_database import translated

log = logging.getLogger(__name__)

_FIRST_ROWS, _CHUNK_ROWS = 20, 256


class SqliteReader:
    """Reads a store from its database, and from the owner's state in RAM where it is the owner's reader."""

    def __init__(
        self,
        database: sqlite3.Connection,
        path: Path,
        clock: Callable[[], float],
        *,
        live: Owner | None = None,
    ) -> None:
        self._database = database
        self._path = path
        self._clock = clock
        self._live = live

    async def crawls(self) -> list[str]:
        with translated(self._path):
            rows = self._database.execute("SELECT name FROM crawl WHERE NOT dropped ORDER BY id").fetchall()
        return [name for [name] in rows]

    def crawl_id(self, crawl: str) -> int:
        with translated(self._path):
            found = self._database.execute(
                "SELECT id FROM crawl WHERE name = ? AND NOT dropped", (crawl,)
            ).fetchone()
        if found is None:
            raise Misconfigured(f"the store has no crawl named {crawl!r}")
        return int(found[0])

    async def counts(self, crawl: str) -> Counts:
        """Return the number of requests by state; without the owner, as of the last transaction."""
        if self._live is not None and (opened := self._live.state.crawls.get(crawl)) is not None:
            promote(self._live.state, self._live.now())
            return opened.counts.copy()
        with translated(self._path):
            [text] = self._database.execute(
                "SELECT counts FROM crawl WHERE id = ?", (self.crawl_id(crawl),)
            ).fetchone()
        return decode_counts(text)

    async def waiting_by_pool(self, crawl: str) -> dict[str, int]:
        """Return the requests that wait for their turn or for a retry, by pool; without the owner, leased
        requests count as well.
        """
        if self._live is not None and (opened := self._live.state.crawls.get(crawl)) is not None:
            waiting: Counter[str] = Counter()
            for lane in opened.lanes.values():
                waiting[lane.pool] += lane.size + (lane.suspects.size if lane.suspects is not None else 0)
            waiting.update(lane.pool for _, _, _, lane in opened.delayed)
            return dict(+waiting)
        id = self.crawl_id(crawl)
        with self._snapshot():
            return waiting_by_pool(self._database, id)

    async def paused(self, crawl: str) -> bool:
        [[paused]] = self._rows("SELECT paused FROM crawl WHERE id = ?", (self.crawl_id(crawl),))
        return bool(paused)

    async def value(self, crawl: str, key: str) -> bytes | None:
        """Return a value that `crawls.set_value` or `commit` stored with the crawl."""
        return self._value(
            "SELECT value FROM crawl_state WHERE crawl = ? AND key = ?", (self.crawl_id(crawl), key)
        )

    async def values(self, crawl: str, prefix: str) -> dict[str, bytes]:
        """Return the values of a crawl whose keys start with `prefix`."""
        with translated(self._path):
            return dict(
                self._database.execute(
                    "SELECT key, value FROM crawl_state WHERE crawl = ? AND key >= ? AND key < ?",
                    (self.crawl_id(crawl), prefix, prefix + "\U0010ffff"),
                ).fetchall()
            )

    async def checkpoint(self, name: str) -> bytes | None:
        """Return what the last commit stored under `name`."""
        return self._value("SELECT value FROM checkpoint WHERE name = ?", (name,))

    async def earlier_pages(self, crawl: str, fingerprints: Sequence[int]) -> dict[int, bytes]:
        """Return the records of these pages in the latest generation that has fetched them."""
        id = self.crawl_id(crawl)
        numbers = self._rows("SELECT number FROM generation WHERE crawl = ? ORDER BY number", (id,))
        earlier = [number for [number] in numbers]
        with translated(self._path):
            return find_done(self._database, id, earlier, fingerprints)

    async def robots(self, host: str) -> StoredRobots | None:
        """Return a host's robots.txt, or None if it is unknown or expired."""
        rows = self._rows(
            "SELECT expires, status, body FROM robots WHERE host = ? AND expires > ?", (host, self._clock())
        )
        return StoredRobots(*rows[0]) if rows else None

    def _value(self, query: str, params: tuple[object, ...]) -> bytes | None:
        with translated(self._path):
            found = self._database.execute(query, params).fetchone()
        return None if found is None else bytes(found[0])

    async def quarantined(self, crawl: str | None) -> list[QuarantinedEntry]:
        """Return the rows of a crawl that could not be read; None: those that belong to no crawl."""
        id = quarantine.NO_CRAWL if crawl is None else self.crawl_id(crawl)
        with translated(self._path):
            return quarantine.entries(self._database, id)

    async def dead_letters(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        limit: int | None = None,
        before: LetterPosition | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Yield the dead letters of a crawl, latest first."""
        id = self.crawl_id(crawl)
        selection, params = select_dead(id, classes=classes, host=host)
        selection += f" AND dead.id >> {ORDINAL_BITS} = ?"  # for the index dead_by_date: nothing is sorted
        params.append(id)
        died_at, ordinal = (math.inf, 0.0) if before is None else before[:2]
        last_id = ordinal if math.isinf(ordinal) else id_range(id)[0] + int(ordinal)
        left = math.inf if limit is None else limit
        step = _FIRST_ROWS
        while left > 0:
            asked = int(min(left, step))
            rows = self._rows(
                f"SELECT died_at, dead.id, fp, host.name, request, kind, reason, status, attempts,"  # noqa: S608
                f" crashes, first_at, holder, page FROM {selection} AND (died_at, dead.id) < (?, ?)"
                " ORDER BY died_at DESC, dead.id DESC LIMIT ?",
                (*params, died_at, last_id, asked),
            )
            for row in rows:
                if (letter := _letter(crawl, *row)) is not None:
                    yield letter
            if len(rows) < asked:
                return
            died_at, last_id = rows[-1][0], rows[-1][1]
            left -= len(rows)
            step = _CHUNK_ROWS

    async def requests(self, crawl: str, states: Collection[str]) -> AsyncIterator[ListedRequest]:
        """Yield the requests in these states, other than `done`."""
        id = self.crawl_id(crawl)
        with translated(self._path):
            for number, listed in enumerate(
                list_requests(self._database, self._rows, id, states, self._clock())
            ):
                yield listed
                if number % _CHUNK_ROWS == 0:
                    await asyncio.sleep(0)  # the owner may be this process

    async def held(self, crawl: str) -> AsyncIterator[Link]:
        """Yield the requests that are held back."""
        id = self.crawl_id(crawl)
        with translated(self._path):
            for link in list_held(self._rows, id):
                yield link

    async def pages(self, crawl: str) -> AsyncIterator[tuple[int, PageRecord]]:
        """Yield fingerprint and record of every page that the crawl has in the archive."""
        id = self.crawl_id(crawl)
        last = 0
        while rows := self._rows(
            "SELECT number, fp, segment, offset, length,"
            " status, fetched_at, items, links, etag, modified, digest, elapsed, wire_bytes,"
            " coalesce(version, 0) FROM ended"
            " WHERE crawl = ? AND state = 'done' AND number > ? ORDER BY number LIMIT ?",
            (id, last, _CHUNK_ROWS),
        ):
            for _, fp, segment, offset, length, *facts in rows:
                yield fp, PageRecord(PageRef(segment, offset, length), *facts)
            last = rows[-1][0]
        for table in ("parsing", "dead"):
            last, end = id_range(id)
            while rows := self._rows(
                f"SELECT id, fp, page FROM {table}"  # noqa: S608
                " WHERE page IS NOT NULL AND id > ? AND id <= ? ORDER BY id LIMIT ?",
                (last, end, _CHUNK_ROWS),
            ):
                for row_id, fp, page in rows:
                    try:
                        yield fp, unpack_page(page)
                    except (Rejected, msgspec.DecodeError, TypeError, ValueError) as error:
                        place = {"place": table, "entry": row_id}
                        log.error("page.unreadable", extra={**place, "why": str(error)})
                last = rows[-1][0]

    async def generations(self, crawl: str) -> list[Generation]:
        """Return the generations that the store has, oldest first; the last one is the current one."""
        id = self.crawl_id(crawl)
        began, counts = await self.value(crawl, BEGAN), await self.counts(crawl)
        with translated(self._path):
            number = current_generation(self._database, id)
            current = Generation(number, float(began or 0.0), finished=counts.open == 0 and counts.done > 0)
            return [*earlier_generations(self._database, id), current]

    async def histories(self, crawl: str, generation: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield fingerprint and record of every request that ended in a generation."""
        id = self.crawl_id(crawl)
        with translated(self._path):
            for number, found in enumerate(histories(self._database, id, generation)):
                yield found
                if number % _CHUNK_ROWS == 0:
                    await asyncio.sleep(0)  # the owner may be this process

    def _rows(self, query: str, params: tuple[object, ...]) -> Sequence[Any]:
        with translated(self._path):
            return self._database.execute(query, params).fetchall()

    async def audit(self, crawl: str) -> Audit:
        """Recount every set from one snapshot of the data, and from the owner's RAM, and compare."""
        id = self.crawl_id(crawl)
        with self._snapshot():
            found = audit(self._database, id, self._clock())
        if self._live is None or (opened := self._live.state.crawls.get(crawl)) is None:
            return found
        return Audit(found.counts, [*found.problems, *audit_state(self._live.state, opened)], found.lost)

    async def check(self) -> list[str]:
        """Return problems of the database itself: blocks that are damaged, and rows of no known crawl."""
        with self._snapshot():
            blocks = [line for [line] in self._database.execute("PRAGMA quick_check(20)") if line != "ok"]
            lost = [] if blocks else orphaned_crawls(self._database)
        return [
            *(f"{self._path} is damaged: {line}" for line in blocks),
            *(f"{self._path} has the data of a crawl whose own record is lost (number {id})" for id in lost),
        ]

    async def history(self, crawl: str, fingerprint: int, *, host: str = "") -> RequestHistory | None:
        """Return the history of one request, or None if the crawl never accepted it. Slow: a full scan."""
        id = self.crawl_id(crawl)
        with self._snapshot():
            return find_history(self._database, id, crawl, fingerprint, self._clock())

    async def host(self, name: str) -> HostView | None:
        """Return a host as the store has it. Only the owner knows its next turn and its failures."""
        with self._snapshot():
            return stored_host(self._database, name)

    async def stats(self, crawl: str) -> CrawlStats:
        """Return averages over the latest pages of a crawl, and its queue by host."""
        id = self.crawl_id(crawl)
        with self._snapshot():
            return crawl_stats(self._database, id)

    async def queues(self, max_hosts: int | None = None) -> list[HostQueue]:
        """Return the queue of each host, crawl by crawl. `max_hosts` has no effect here: reading is cheap."""
        return [queue for crawl in await self.crawls() for queue in (await self.stats(crawl)).hosts]

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Read one state of the store although the owner keeps writing."""
        with translated(self._path):
            self._database.execute("BEGIN")
            try:
                yield
            finally:
                self._database.execute("COMMIT")


def _letter(crawl: str, died_at: float, id: int, *row: Any) -> DeadLetter | None:
    """Return a dead letter from its row; None: it cannot be read."""
    fp, host, request, kind, reason, status, attempts, crashes, first_at, holder, page = row
    reason, detail = split_text(str(reason))
    try:
        return DeadLetter(
            crawl=crawl,
            fingerprint=fp,
            host=host,
            request=unpack(request),
            kind=FailureClass(kind),
            reason=reason,
            status=status,
            attempts=attempts,
            crashes=crashes,
            first_at=first_at,
            died_at=died_at,
            holder=holder,
            page=None if page is None else unpack_page(page),
            detail=detail,
            ordinal=id & ((1 << ORDINAL_BITS) - 1),
        )
    except (Rejected, msgspec.DecodeError, TypeError, ValueError) as error:
        log.error("dead_letter.unreadable", extra={"crawl": crawl, "entry": id, "why": str(error)})
        return None


def select_dead(
    crawl_id: int,
    *,
    classes: Collection[FailureClass] = (),
    host: str = "",
    fingerprints: Collection[int] = (),
) -> tuple[str, list[object]]:
    """Return the FROM and WHERE clause that selects dead letters, and its parameters."""
    first, last = id_range(crawl_id)
    clause = (
        "dead JOIN lane ON lane.id = dead.lane JOIN host ON host.id = lane.host WHERE dead.id BETWEEN ? AND ?"
    )
    params: list[object] = [first, last]
    if classes:
        clause += f" AND kind IN ({', '.join('?' * len(classes))})"
        params += [one.value for one in classes]
    if host:
        clause += " AND host.name = ?"
        params.append(host)
    if fingerprints:
        clause += " AND fp IN (SELECT value FROM json_each(?))"  # one parameter for any number of them
        params.append(msgspec.json.encode(list(fingerprints)).decode())
    return clause, params
