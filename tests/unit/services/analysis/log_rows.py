"""A small fetch log, and a database over it."""

from pathlib import Path

from shoal.archive.fetch_log import FetchLogReader, FetchLogWriter, Row, open_parts
from shoal.archive.fetch_log.columns import DEFAULTS
from shoal.archive.segments import SegmentFolder
from shoal.services.analysis.query import LogDatabase, open_database, snapshot

NOON = 1_794_916_800_000_000  # 2026-11-17 12:00 UTC


def row(number: int, **values: object) -> Row:
    given = {
        "started_at": NOON + number * 1_000_000,
        "crawl": "shop",
        "fingerprint": number,
        "url": f"http://a.test/{number}",
        "host": "a.test",
        "status": 200,
        "outcome": "done",
        "attempt": 1,
        "worker": "w",
        "sent": 1,
        "total_ms": 30.0,
        "queue_ms": 10.0,
        "wire_bytes": 1_000,
        "segment": "s",
        "offset": number,
        "items": 2,
        "links": 3,
        "version": "v1",
        **values,
    }
    return tuple({**DEFAULTS, **given}.values())


NO_PAGE = {"segment": "", "offset": 0, "items": 0, "links": 0, "version": ""}
ROWS = [
    row(1, found_on=0, item_keys="a\nb"),
    row(
        2,
        found_on=1,
        **{**NO_PAGE, "status": 503, "outcome": "retry", "failure": "target_error", "reason": "status 503"},
    ),
    row(3, found_on=1, outcome="fetched", items=0, links=0, version=""),
    row(
        4,
        stage="parse",
        fingerprint=3,
        offset=3,
        url="",
        sent=0,
        wire_bytes=0,
        total_ms=0.0,
        queue_ms=0.0,
        worker="p",
    ),
    row(
        5, **{**NO_PAGE, "outcome": "filtered", "failure": "robots", "sent": 0, "wire_bytes": 0, "status": 0}
    ),
]


def database(folder: Path, rows: list[Row]) -> LogDatabase:
    log = FetchLogWriter(open_parts(SegmentFolder(folder / "archive")), "shop", part_bytes=1 << 20)
    if rows:
        log.write(rows[:2])
        log.finish()  # one complete part, and one that grows
        log.write(rows[2:])
    copies = folder / "copies"
    copies.mkdir()
    return open_database(snapshot([FetchLogReader(SegmentFolder(folder / "archive"))], copies), copies)
