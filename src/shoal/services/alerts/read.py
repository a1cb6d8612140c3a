"""The current alerts of a store, for commands and pages."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shoal.model.alert import LASTING, Alert, AlertBook, read_book
from shoal.model.settings import AlertSettings
from shoal.services.alerts.conditions import find_conditions
from shoal.services.alerts.evaluate import apply_conditions
from shoal.services.alerts.gather import StoredHosts, gather
from shoal.services.alerts.window import Window
from shoal.stores.contract.monitoring import ALERTS
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store


@dataclass(frozen=True, slots=True)
class StoreAlerts:
    at: float  # when they were evaluated, epoch seconds
    by: str  # the process; empty: this one, because no other does
    active: Sequence[Alert]
    recent: Sequence[Alert]  # cleared ones, latest first
    unknown: Sequence[Alert] = ()  # those of a crawl that was stopped


async def read_alerts(store: Store, rules: AlertSettings | None = None) -> StoreAlerts:
    """Return the alerts of a store.

    If no process evaluates them (all workers of a fleet are gone), this call does it once: it finds what one
    look can show, such as a missing worker. The alerts of a process that was killed are not current.
    """
    book = read_book(await store.monitoring.get(ALERTS))
    if not store.capabilities.shared:
        if store.workers.owner() is not None and book.is_current(time.time()) and not book.stopped:
            return _of(book)
        return await _lasting(store, rules or AlertSettings(), book)
    if book.is_current(time.time()) and await store.workers.all():
        return _of(book)
    now = await _look_once(store, rules or AlertSettings(), AlertBook())
    return StoreAlerts(now.at, "", now.active, book.recent)


async def _lasting(store: Store, rules: AlertSettings, book: AlertBook) -> StoreAlerts:
    """Return the alerts of a folder on which no process works: what its records show holds all the same."""
    now = await _look_once(store, rules, book)
    lasting = [alert for alert in now.active if alert.kind in LASTING]
    return StoreAlerts(book.at, "", lasting, book.recent, book.unknown)


async def _look_once(store: Store, rules: AlertSettings, previous: AlertBook) -> AlertBook:
    """Return the alerts whose conditions hold now, and for how long they have been known."""
    rules = replace(rules, wait=0.0, calm=0.0)
    observation = await gather(store, StoredHosts(store))
    conditions = find_conditions(Window([observation]), rules)
    return apply_conditions(conditions, rules, previous, observation.at).book


async def alerts(dsn: str, rules: AlertSettings | None = None) -> StoreAlerts:
    """Do what `read_alerts` does, for the store at an address."""
    async with open_store(dsn) as store:
        return await read_alerts(store, rules)


def _of(book: AlertBook) -> StoreAlerts:
    return StoreAlerts(book.at, book.by, book.active, book.recent)
