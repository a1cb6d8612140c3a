"""Repair: make counters, indexes and the seen-set agree with the rows.

Shoal itself never leaves them apart, because every change is one transaction. This is for rows that a damaged
disk, another program or a person has changed. Every accepted request has a row, so what is lost is known one
by one: it stays in the seen-set, and is counted as lost.
"""

import sqlite3
from array import array
from collections import Counter

import msgspec

from shoal.frontier.results import STORED_STATES, Counts
from shoal.frontier.sqlite.audit import OPEN_TABLES, places
from shoal.frontier.sqlite.changes import spent_ids, sweep
from shoal.frontier.sqlite.load import decode_counts, id_range, seen_log
from shoal.frontier.sqlite.packing import pack_ints, unpack_ints
from shoal.frontier.sqlite.seen import SeenSet
from shoal.frontier.sqlite.state import ORDINAL_BITS
from shoal.model.errors import Rejected
from shoal.model.request import unpack
from shoal.model.url import host_key

# The place to keep first, of a request that is in two.
_PLACES = (("ended", "number", "crawl = {crawl}"), ("dead", "id", "{ids}"), ("parsing", "id", "{ids}"))


def repair(database: sqlite3.Connection, crawl_id: int, now: float) -> list[str]:
    """Repair a crawl inside the caller's transaction; return one line per kind of fault."""
    [text] = database.execute("SELECT counts FROM crawl WHERE id = ?", (crawl_id,)).fetchone()
    counts = decode_counts(text)
    lines = [
        *_line("a lane or host that was missing", _restore_lanes(database, crawl_id)),
        *_line("a lease of a request that does not exist", _drop_leases(database, crawl_id)),
        *_line("a request in two places", _keep_in_one_place(database, crawl_id)),
        *_line(
            "a request missing in the seen-set, or twice there",
            _repair_seen(database, crawl_id, now),
        ),
    ]
    correct = _recount(database, crawl_id, now, counts)
    for name, old in msgspec.structs.asdict(counts).items():
        new = getattr(correct, name)
        if name == "lost" and new > old:
            lines.append(
                "requests that were accepted and are in no state: recorded as lost, not restored"
                f" ({new - old})"
            )
        elif name not in ("waiting", "delayed") and new != old:
            lines.append(f"the counter of {name} was {old}")
    if counts.waiting + counts.delayed != correct.waiting + correct.delayed:
        lines.append(f"the counter of waiting or delayed was {counts.waiting + counts.delayed}")
    encoded = msgspec.json.encode(correct).decode()
    database.execute("UPDATE crawl SET counts = ? WHERE id = ?", (encoded, crawl_id))
    return lines


def _line(kind: str, number: int) -> list[str]:
    return [f"{kind} ({number})" if number > 1 else kind] if number else []


def _restore_lanes(database: sqlite3.Connection, crawl_id: int) -> int:
    """Create the lanes and hosts that requests refer to; each is known from the URLs of its requests."""
    restored: set[int] = set()
    for table, _ in OPEN_TABLES:
        for lane, host_id, packed in database.execute(
            f"SELECT {table}.lane, lane.host, request FROM {table} LEFT JOIN lane ON lane.id = {table}.lane"  # noqa: S608
            f" LEFT JOIN host ON host.id = lane.host WHERE host.id IS NULL AND {table}.id BETWEEN ? AND ?",
            id_range(crawl_id),
        ).fetchall():
            if lane in restored:
                continue
            try:
                request = unpack(packed)
            except (Rejected, ValueError, TypeError):
                continue  # another request of the lane may be readable
            name = host_key(request.url)
            database.execute("INSERT OR IGNORE INTO host(id, name) VALUES (?, ?)", (host_id, name))
            if host_id is None:
                [host_id] = database.execute("SELECT id FROM host WHERE name = ?", (name,)).fetchone()
                database.execute(
                    "INSERT INTO lane VALUES (?, ?, ?, ?)", (lane, crawl_id, host_id, request.pool)
                )
            restored.add(lane)
    return len(restored)


def _drop_leases(database: sqlite3.Connection, crawl_id: int) -> int:
    dropped = 0
    for token, packed in database.execute("SELECT token, ids FROM lease").fetchall():
        ids = unpack_ints(packed)
        kept = [
            id
            for id in dict.fromkeys(ids)
            if id >> ORDINAL_BITS != crawl_id
            or database.execute("SELECT 1 FROM request WHERE id = ?", (id,)).fetchone() is not None
        ]
        if len(kept) < len(ids):
            dropped += len(ids) - len(kept)
            database.execute("UPDATE lease SET ids = ? WHERE token = ?", (pack_ints(kept), token))
    return dropped


def _keep_in_one_place(database: sqlite3.Connection, crawl_id: int) -> int:
    """Delete the rows of requests that are further along in another table."""
    sweep(database)
    first, last = id_range(crawl_id)
    removed = 0
    database.execute("CREATE TEMPORARY TABLE further(fp INTEGER PRIMARY KEY)")
    for table, key, selection in (*_PLACES, ("request", "id", "{ids}")):
        where = selection.format(crawl=crawl_id, ids=f"id BETWEEN {first} AND {last}")
        removed += database.execute(
            f"DELETE FROM {table} WHERE {where} AND (fp IN (SELECT fp FROM further) OR {key} NOT IN"  # noqa: S608
            f" (SELECT min({key}) FROM {table} WHERE {where} GROUP BY fp))"
        ).rowcount
        database.execute(f"INSERT OR IGNORE INTO further SELECT fp FROM {table} WHERE {where}")  # noqa: S608
    database.execute("DROP TABLE further")
    return removed


def _repair_seen(database: sqlite3.Connection, crawl_id: int, now: float) -> int:
    logged = array("q")
    for fps in seen_log(database, crawl_id):
        logged.extend(fps)
    seen = SeenSet.of([logged], len(logged))
    repeated = len(logged) - len(seen)
    if repeated:
        database.execute("DELETE FROM seen WHERE crawl = ?", (crawl_id,))
        database.execute("INSERT INTO seen(crawl, fps) VALUES (?, ?)", (crawl_id, pack_ints(seen)))
    missing = [fp for _, _, fp in places(database, crawl_id, now) if fp not in seen]
    if missing:
        database.execute("INSERT INTO seen(crawl, fps) VALUES (?, ?)", (crawl_id, pack_ints(missing)))
    return repeated + len(missing)


def _recount(database: sqlite3.Connection, crawl_id: int, now: float, counts: Counts) -> Counts:
    found: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    for state, state_and_class, _ in places(database, crawl_id, now):
        found[state] += 1
        if state_and_class:
            classes[state_and_class] += 1
    leased = {
        id
        for [ids] in database.execute("SELECT ids FROM lease")
        for id in unpack_ints(ids)
        if id >> ORDINAL_BITS == crawl_id
    }
    found["leased"] = len(leased - spent_ids(database))
    found["waiting"] -= found["leased"]
    accepted = sum(len(fps) for fps in seen_log(database, crawl_id))
    return msgspec.structs.replace(
        counts,
        accepted=accepted,
        lost=accepted - sum(found[state] for state in STORED_STATES),
        dead_by_class=_by_class(classes, "dead"),
        filtered_by_rule=_by_class(classes, "filtered"),
        **{state: found[state] for state in STORED_STATES},
    )


def _by_class(classes: Counter[str], state: str) -> dict[str, int]:
    return {name.partition(" ")[2]: count for name, count in classes.items() if name.startswith(f"{state} ")}
