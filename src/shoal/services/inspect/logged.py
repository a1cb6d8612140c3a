"""What the fetch log says about one request. Pure: rows in, values out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shoal.archive.fetch_log import LoggedAttempt
from shoal.frontier.results import RequestHistory
from shoal.model.page import PageRecord, PageRef

PHASES = ("queue", "dns", "connect", "tls", "first_byte", "body")
ENDS = ("done", "gone", "dead", "filtered")
_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt."""

    started_at: float
    elapsed: float
    status: int
    kind: str = ""  # failure class; empty: it brought a page
    reason: str = ""
    number: int = 0  # as the store counts them; 0: unknown
    outcome: str = ""
    worker: str = ""
    pool: str = ""
    level: str = ""
    exit: str = ""  # empty: direct
    address: str = ""  # of the server
    sent: bool = True
    phases: tuple[float, ...] = ()  # seconds, as in `PHASES`; empty: unknown
    wire_bytes: int = 0
    missing: int = 0  # attempts before this one that left no row: their workers died, or log elsewhere


@dataclass(frozen=True, slots=True)
class Parse:
    """How the page of a request was parsed."""

    at: float
    worker: str
    version: str
    cpu_ms: float
    items: int
    links: int
    keys: Sequence[str] = ()  # of its items; of very many, the first
    failure: str = ""
    reason: str = ""


def tries_in(rows: Sequence[LoggedAttempt]) -> list[Try]:
    """Return the attempts among rows, in order."""
    tries: list[Try] = []
    before = 0
    for row in rows:
        if row.stage != "fetch":
            continue
        tries.append(_try(row, missing=max(row.attempt - before - 1, 0)))
        before = row.attempt
    return tries


def _try(row: LoggedAttempt, *, missing: int) -> Try:
    return Try(
        row.started_at / _MICRO,
        row.total_ms / 1000,
        row.status,
        "" if row.outcome in ("done", "fetched") else row.failure or row.outcome,
        row.reason,
        row.attempt,
        row.outcome,
        row.worker,
        row.pool,
        row.level,
        row.exit,
        row.address,
        bool(row.sent),
        tuple(getattr(row, f"{phase}_ms") / 1000 for phase in PHASES),
        row.wire_bytes,
        missing,
    )


def last_parse(rows: Sequence[LoggedAttempt]) -> Parse | None:
    """Return how the latest page was parsed; None: it was not, or not yet."""
    for row in reversed(rows):
        if row.version:
            return Parse(
                row.started_at / _MICRO,
                row.worker,
                row.version,
                row.parse_ms,
                row.items,
                row.links,
                row.item_keys.split("\n") if row.item_keys else default_keys(row.fingerprint, row.items),
                row.failure,
                row.reason,
            )
    return None


def default_keys(fingerprint: int, items: int, most: int = 100) -> list[str]:
    """Return the keys of items without key fields."""
    return [f"{fingerprint:016x}-{number}" for number in range(min(items, most))]


def completed(story: RequestHistory, rows: Sequence[LoggedAttempt]) -> RequestHistory:
    """Return a history that the store has forgotten, as far as the log knows it.

    A fleet's store says of a request that has ended only that it has: `done` without a page.
    """
    if not rows or story.state != "done" or story.page is not None:
        return story
    last = rows[-1]
    page = page_in(rows)
    if last.outcome not in ENDS:
        return replace(story, page=page)
    return replace(
        story,
        state=last.outcome,
        page=page if last.outcome in ("done", "dead") else None,
        found_on=next((row.found_on for row in rows if row.stage == "fetch"), None),
        ended_at=ended_at(last),
        status=last.status,
        elapsed=last.total_ms / 1000,
        rule=last.failure if last.outcome in ("dead", "filtered") else "",
        reason=last.reason,
        holder=last.worker,
    )


def page_in(rows: Sequence[LoggedAttempt]) -> PageRecord | None:
    """Return the record of the latest page."""
    fetched = next((row for row in reversed(rows) if row.stage == "fetch" and row.segment), None)
    if fetched is None:
        return None
    brought = last_parse(rows)
    return PageRecord(
        PageRef(fetched.segment, fetched.offset, fetched.length),
        fetched.status,
        ended_at(fetched),
        items=fetched.items if brought is None else brought.items,
        links=fetched.links if brought is None else brought.links,
        elapsed=fetched.total_ms / 1000,
        wire_bytes=fetched.wire_bytes,
    )


def ended_at(row: LoggedAttempt) -> float:
    """Return when an attempt or a parse ended, in epoch seconds."""
    return row.started_at / _MICRO + row.total_ms / 1000
