"""Snapshots and summaries to show."""

from dataclasses import replace
from typing import Any

from shoal.services.crawl import Ending, HostSnapshot, Snapshot, Summary

BUSY = Snapshot(
    crawl="shop.example",
    elapsed=72.0,
    pages=1234,
    items=1100,
    bytes=48_200_000,
    rate=18.4,
    counts={
        "waiting": 3000,
        "delayed": 4,
        "leased": 16,
        "parsing": 2,
        "done": 1234,
        "gone": 12,
        "dead": 3,
        "filtered": 88,
    },
    failures={"timeout": 5, "target_error": 2},
    filtered={"scope": 80, "robots": 8},
    in_flight=14,
    parse_backlog=2,
    eta=163.0,
    eta_reason="the pace of shop.example",
)


def host(name: str, **changes: Any) -> HostSnapshot:
    view = HostSnapshot(name, waiting=3000, in_flight=4, interval=0.5, slow=1.0, next_turn=0.2, failures=0)
    return replace(view, **changes)


def snapshot(**changes: Any) -> Snapshot:
    return replace(BUSY, **changes)


def summary(ending: Ending = Ending.FINISHED, **changes: Any) -> Summary:
    whole = Summary(
        ending=ending,
        snapshot=BUSY,
        resumed=False,
        outputs=["shoal-data/items.jsonl"],
        archive="shoal-data/archive",
        store="shoal-data",
    )
    return replace(whole, **changes)
