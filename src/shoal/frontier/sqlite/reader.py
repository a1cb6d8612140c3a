"""Reading a store, by its owner or beside it."""

import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from shoal.frontier.results import Audit, Counts, DeadLetter, HostQueue, HostView, Measured, RequestHistory
from shoal.frontier.sqlite.audit import audit
from shoal.frontier.sqlite.history import host_at_rest, story
from shoal.frontier.sqlite.load import decode_counts, id_range
from shoal.frontier.sqlite.packing import unpacked_page
from shoal.frontier.sqlite.stats import measured
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import unpack
from shoal.sqlite_database import translated

_CHUNK = 256


class SqliteReader:
    """What can be told of every crawl of a store from its database alone."""

    def __init__(self, database: sqlite3.Connection, path: Path, clock: Callable[[], float]) -> None:
        self._database = database
        self._path = path
        self._clock = clock

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
        """Count the requests of a crawl by state, as of the last transaction."""
        with translated(self._path):
            [text] = self._database.execute(
                "SELECT counts FROM crawl WHERE id = ?", (self.crawl_id(crawl),)
            ).fetchone()
        return decode_counts(text)

    async def paused(self, crawl: str) -> bool:
        """Say whether a crawl is paused."""
        [[paused]] = self._rows("SELECT paused FROM crawl WHERE id = ?", (self.crawl_id(crawl),))
        return bool(paused)

    async def crawl_get(self, crawl: str, key: str) -> bytes | None:
        """Read one value that `crawl_set` or `commit` wrote."""
        return self._value(
            "SELECT value FROM crawl_state WHERE crawl = ? AND key = ?", (self.crawl_id(crawl), key)
        )

    async def checkpoint(self, name: str) -> bytes | None:
        """Read back what the last commit recorded under `name`."""
        return self._value("SELECT value FROM checkpoint WHERE name = ?", (name,))

    def _value(self, query: str, params: tuple[object, ...]) -> bytes | None:
        with translated(self._path):
            found = self._database.execute(query, params).fetchone()
        return None if found is None else bytes(found[0])

    async def dead_letters(
        self, crawl: str, *, kinds: Collection[FailureClass] = (), host: str = "", limit: int | None = None
    ) -> AsyncIterator[DeadLetter]:
        """Give the dead letters of a crawl, the latest first."""
        chosen, params = dead_where(self.crawl_id(crawl), kinds=kinds, host=host)
        before: tuple[float, int] = (math.inf, 0)
        left = math.inf if limit is None else limit
        while left > 0:
            rows = self._rows(
                f"SELECT died_at, dead.id, fp, host.name, request, kind, reason, status, attempts,"  # noqa: S608
                f" crashes, first_at, holder, page FROM {chosen} AND (died_at, dead.id) < (?, ?)"
                " ORDER BY died_at DESC, dead.id DESC LIMIT ?",
                (*params, *before, int(min(left, _CHUNK))),
            )
            for died_at, _, fp, name, request, kind, reason, status, *facts, holder, page in rows:
                attempts, crashes, first_at = facts
                yield DeadLetter(
                    crawl=crawl,
                    fingerprint=fp,
                    host=name,
                    request=unpack(request),
                    kind=FailureClass(kind),
                    reason=reason,
                    status=status,
                    attempts=attempts,
                    crashes=crashes,
                    first_at=first_at,
                    died_at=died_at,
                    holder=holder,
                    page=None if page is None else unpacked_page(page),
                )
            if len(rows) < _CHUNK:
                return
            before = (rows[-1][0], rows[-1][1])
            left -= len(rows)

    async def pages(self, crawl: str) -> AsyncIterator[tuple[int, PageRecord]]:
        """Give every page that the crawl keeps in the archive, with its fingerprint."""
        id = self.crawl_id(crawl)
        last = 0
        while rows := self._rows(
            "SELECT number, fp, segment, offset, length,"
            " status, fetched_at, items, links, etag, modified, digest, elapsed, wire_bytes,"
            " coalesce(version, 0) FROM ended"
            " WHERE crawl = ? AND state = 'done' AND number > ? ORDER BY number LIMIT ?",
            (id, last, _CHUNK),
        ):
            for _, fp, segment, offset, length, *facts in rows:
                yield fp, PageRecord(PageRef(segment, offset, length), *facts)
            last = rows[-1][0]
        for table in ("parsing", "dead"):
            last, end = id_range(id)
            while rows := self._rows(
                f"SELECT id, fp, page FROM {table}"  # noqa: S608
                " WHERE page IS NOT NULL AND id > ? AND id <= ? ORDER BY id LIMIT ?",
                (last, end, _CHUNK),
            ):
                for _, fp, page in rows:
                    yield fp, unpacked_page(page)
                last = rows[-1][0]

    def _rows(self, query: str, params: tuple[object, ...]) -> Sequence[Any]:
        with translated(self._path):
            return self._database.execute(query, params).fetchall()

    async def audit(self, crawl: str) -> Audit:
        """Count every set again from the data and compare; one snapshot, whoever writes meanwhile."""
        id = self.crawl_id(crawl)
        with self._snapshot():
            return audit(self._database, id, self._clock())

    async def story(self, crawl: str, fingerprint: int) -> RequestHistory | None:
        """Tell what became of one request, by looking through everything; None: it was never accepted."""
        id = self.crawl_id(crawl)
        with self._snapshot():
            return story(self._database, id, crawl, fingerprint, self._clock())

    async def host(self, name: str) -> HostView | None:
        """Show a host as the store knows it: its turns and failures only its owner knows."""
        with self._snapshot():
            return host_at_rest(self._database, name)

    async def measured(self, crawl: str) -> Measured:
        """Measure a crawl: its latest pages, and what is left of it by host."""
        id = self.crawl_id(crawl)
        with self._snapshot():
            return measured(self._database, id)

    async def queues(self, most: int | None = None) -> list[HostQueue]:
        """Say what is left on each host, crawl by crawl; `most` is for stores that many share."""
        return [queue for crawl in await self.crawls() for queue in (await self.measured(crawl)).hosts]

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Read one state of the store, whoever writes meanwhile."""
        with translated(self._path):
            self._database.execute("BEGIN")
            try:
                yield
            finally:
                self._database.execute("COMMIT")


def dead_where(
    crawl_id: int, *, kinds: Collection[FailureClass] = (), host: str = "", fingerprints: Collection[int] = ()
) -> tuple[str, list[object]]:
    """Say in SQL which dead letters are meant."""
    first, last = id_range(crawl_id)
    clause = (
        "dead JOIN lane ON lane.id = dead.lane JOIN host ON host.id = lane.host WHERE dead.id BETWEEN ? AND ?"
    )
    params: list[object] = [first, last]
    if kinds:
        clause += f" AND kind IN ({', '.join('?' * len(kinds))})"
        params += [kind.value for kind in kinds]
    if host:
        clause += " AND host.name = ?"
        params.append(host)
    if fingerprints:
        clause += " AND fp IN (SELECT value FROM json_each(?))"  # one parameter, however many there are
        params.append(msgspec.json.encode(list(fingerprints)).decode())
    return clause, params
