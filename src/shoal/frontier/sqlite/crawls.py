"""Crawls in the embedded store: opening, pausing and deleting them."""

import sqlite3
from collections.abc import Collection, Iterable, Mapping

import msgspec

from shoal.frontier.results import Counts, Opened
from shoal.frontier.sqlite.history import drop_generations, end_generation
from shoal.frontier.sqlite.leases import reclaim_all
from shoal.frontier.sqlite.load import charge_strikes, decode_counts, decode_terms, id_range, load
from shoal.frontier.sqlite.owner import Owner
from shoal.frontier.sqlite.reader import SqliteReader
from shoal.frontier.sqlite.state import CrawlState, CrawlTerms
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured
from shoal.model.pace import Pace
from shoal.model.request import FINGERPRINT_KEY
from shoal.model.yields.counts import HISTORY as YIELDS
from shoal.sqlite_database import translated


class SqliteCrawls:
    def __init__(self, owner: Owner, reader: SqliteReader) -> None:
        self._owner = owner
        self._reader = reader

    async def open(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> Opened:
        """Create or resume a crawl. Options that are None keep their value.

        `hosts` maps host names to the pace that this crawl uses there instead of `pace`. `state` is written
        only if the crawl is new.
        """
        owner = self._owner
        owner.refuse_if_broken()
        with translated(owner.path):
            known = owner.database.execute(
                "SELECT id, settings, counts, paused, dropped FROM crawl WHERE name = ?", (name,)
            ).fetchone()
        resumed = known is not None and not known[4]
        options = {
            "pace": pace,
            "max_crashes": max_crashes,
            "slowdown": slowdown,
            "host_budget": host_budget,
            "hosts": hosts,
        }
        if resumed:
            _require_readable(name, *known[1:3])
        terms = msgspec.structs.replace(
            decode_terms(known[1]) if resumed else CrawlTerms(),
            **{name: value for name, value in options.items() if value is not None},
        )
        with owner.transaction() as database:
            [id] = database.execute(
                "INSERT INTO crawl(name, settings, counts) VALUES (?, ?, '{}')"
                " ON CONFLICT(name) DO UPDATE SET settings = excluded.settings, dropped = 0 RETURNING id",
                (name, msgspec.json.encode(terms).decode()),
            ).fetchone()
            if not resumed:
                # An earlier generation may have left its key, which this one keeps.
                database.executemany(
                    "INSERT OR IGNORE INTO crawl_state VALUES (?, ?, ?)",
                    [(id, key, value) for key, value in (state or {}).items()],
                )
            if (crawl := owner.state.crawls.get(name)) is not None:
                self._reopen(crawl, terms)
            else:
                counts = decode_counts(known[2]) if resumed else Counts()
                crawl = CrawlState(id, name, terms, counts, paused=bool(resumed and known[3]))
                owner.state.crawls[name] = crawl
                load(owner.state, crawl, owner.now())
        return Opened(name, resumed)

    def _reopen(self, crawl: CrawlState, terms: CrawlTerms) -> None:
        crawl.terms = terms
        for host in {lane.host for lane in crawl.lanes.values()}:
            host.update_pace()
            self._owner.state.scheduler.place_all(host, self._owner.now())

    def is_open(self, name: str) -> bool:
        return name in self._owner.state.crawls

    def mark_guest(self, name: str) -> None:
        """Record that another process runs an open crawl, through this one."""
        self._owner.state.crawl(name).guest = True

    async def close(self, name: str) -> None:
        """Unload a crawl whose process has ended, as the next start of this one would find it.

        What it still has leased or in parsing is charged with a crash, as after a kill.
        """
        owner, state = self._owner, self._owner.state
        if (crawl := state.crawls.get(name)) is None:
            return
        now = owner.now()
        with owner.changing() as changes:
            reclaim_all(state, crawl, changes, now)
            changes.crawls.add(crawl)
            changes.sweep = True  # rows of requests that have ended would be loaded again
        with owner.transaction() as database:
            terms = {crawl.id: (crawl.terms.max_crashes, crawl.counts)}
            charge_strikes(database, terms, now, ids=id_range(crawl.id))
            counts = msgspec.json.encode(crawl.counts).decode()
            database.execute("UPDATE crawl SET counts = ? WHERE id = ?", (counts, crawl.id))
        del state.crawls[name]
        for host in {lane.host for lane in crawl.lanes.values()}:
            host.leave(crawl)
            state.scheduler.place_all(host, now)

    async def delete(
        self, name: str, *, checkpoints: Collection[str] = (), entirely: bool = False, keep: int = 1
    ) -> bool:
        """Delete a crawl that is not open, and the named checkpoints; return False if there is no such crawl.

        Unless `entirely`, its pages become an earlier generation of the next crawl of that name, and `keep`
        of these stay.
        """
        self._owner.refuse_if_broken()
        if name in self._owner.state.crawls:
            raise Misconfigured(f"crawl {name!r} is open and cannot be deleted")
        if name not in await self._reader.crawls():
            return False
        counts = await self._reader.counts(name)
        finished = counts.open == 0 and counts.done > 0  # a site that was down has validated nothing
        with self._owner.transaction() as database:
            id = self._reader.crawl_id(name)
            if entirely:
                _delete_entirely(database, id)
            else:
                end_generation(database, id, finished=finished, keep=keep)
                _delete_generation(database, id)
            _delete_checkpoints(database, checkpoints)
        return True

    async def pause(self, crawl: str) -> None:
        """Stop leasing from a crawl, open or not, until `resume`. A restart keeps the pause."""
        self._set_paused(crawl, paused=True)

    async def resume(self, crawl: str) -> None:
        self._set_paused(crawl, paused=False)

    def _set_paused(self, name: str, *, paused: bool) -> None:
        id = self._reader.crawl_id(name)
        with self._owner.transaction() as database:
            database.execute("UPDATE crawl SET paused = ? WHERE id = ?", (paused, id))
            if (crawl := self._owner.state.crawls.get(name)) is not None:
                crawl.paused = paused

    async def set_value(self, crawl: str, key: str, value: bytes) -> None:
        """Store a value with a crawl, open or not."""
        id = self._reader.crawl_id(crawl)
        with self._owner.changing() as changes:
            changes.crawl_state.append((id, key, value))


def _require_readable(name: str, terms: object, counts: object) -> None:
    """Raise if the row of a crawl is damaged; other crawls of the folder are not affected."""
    try:
        decode_terms(terms)  # type: ignore[arg-type]
        decode_counts(counts)  # type: ignore[arg-type]
    except (msgspec.DecodeError, TypeError) as error:
        raise Misconfigured(
            f"the record of crawl {name!r} in the store is damaged ({error}): put the folder back from a"
            " copy, or start the crawl again with --fresh"
        ) from error


def _delete_entirely(database: sqlite3.Connection, crawl_id: int) -> None:
    _delete_rows(database, crawl_id)
    drop_generations(database, crawl_id)
    database.execute("DELETE FROM crawl WHERE id = ?", (crawl_id,))


def _delete_generation(database: sqlite3.Connection, crawl_id: int) -> None:
    """Delete everything of a crawl except its earlier generations, the key that finds their pages, and what
    they yielded.
    """
    kept = database.execute(
        "SELECT crawl, key, value FROM crawl_state WHERE crawl = ? AND key IN (?, ?)",
        (crawl_id, FINGERPRINT_KEY, YIELDS),
    ).fetchall()
    _delete_rows(database, crawl_id)
    database.executemany("INSERT INTO crawl_state VALUES (?, ?, ?)", kept)
    database.execute("UPDATE crawl SET dropped = 1, paused = 0, counts = '{}' WHERE id = ?", (crawl_id,))


def _delete_rows(database: sqlite3.Connection, crawl_id: int) -> None:
    for table in ("request", "parsing", "dead"):
        database.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", id_range(crawl_id))  # noqa: S608
    for table in ("ended", "attempt", "seen", "lane", "crawl_state", "quarantine"):
        database.execute(f"DELETE FROM {table} WHERE crawl = ?", (crawl_id,))  # noqa: S608


def _delete_checkpoints(database: sqlite3.Connection, names: Iterable[str]) -> None:
    database.executemany("DELETE FROM checkpoint WHERE name = ?", [(name,) for name in names])
