"""The levels of hosts: what was learned, and what an operator sets. Works while a crawl runs."""

import time
from collections.abc import Mapping

import msgspec

from shoal.fetch.escalation.browser_budget import SpentPages, read_spent
from shoal.fetch.escalation.learned_levels import CRAWL, change_host, read_host
from shoal.model.errors import Misconfigured
from shoal.model.levels.ladder import AUTO, PINS
from shoal.model.levels.learned import HostLevels
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store


async def read_levels(store: Store) -> tuple[dict[str, HostLevels], dict[str, SpentPages]]:
    """Return what is known of hosts, and what crawls have spent on escalated pages, both by name."""
    _, stored = await store.levels.changed()
    present = {key: packed for key, packed in stored.items() if packed is not None}
    hosts = {key: read_host(key, packed) for key, packed in present.items() if not key.startswith(CRAWL)}
    spent = {
        key.removeprefix(CRAWL): read_spent(packed)
        for key, packed in present.items()
        if key.startswith(CRAWL)
    }
    return hosts, spent


async def host_level(dsn: str, host: str) -> HostLevels | None:
    """Return what is known of the levels of a host; None: it has needed no more than the first."""
    async with open_store(dsn) as store:
        packed = await store.levels.get(host)
        return None if packed is None else read_host(host, packed)


async def set_level(dsn: str, host: str, level: str) -> HostLevels:
    """Set the level of a host in all crawls of a store; `auto`: learn it again, from what is known."""
    if level not in PINS:
        raise Misconfigured(f"{level[:40]!r} is not a level: use {', '.join(PINS)}")
    pin = "" if level == AUTO else level

    def change(known: HostLevels) -> HostLevels:
        return msgspec.structs.replace(known, pin=pin, changed_at=round(time.time(), 1))

    async with open_store(dsn) as store:
        return await change_host(store.levels, host, change)


async def reset_level(dsn: str, host: str) -> None:
    """Forget what was learned and set for a host: its next pages start at the first level."""
    async with open_store(dsn) as store:
        await change_host(store.levels, host, lambda _: HostLevels())


def levels_json(hosts: Mapping[str, HostLevels]) -> dict[str, object]:
    return {host: host_levels_json(known) for host, known in hosts.items()}


def host_levels_json(known: HostLevels) -> dict[str, object]:
    return {
        "set": known.pin or None,
        "patterns": {
            pattern: {
                "level": learned.level,
                "cause": learned.cause,
                "why": learned.why,
                "since": learned.since or None,
                "good": learned.good,
                "bad": learned.bad,
                "rest_until": learned.rest_until or None,
            }
            for pattern, learned in known.patterns.items()
        },
    }
