"""Read one observation from a store: counters, heartbeats and figures. Nothing here scans."""

import asyncio
import time
from collections.abc import Mapping
from typing import Protocol

from shoal.frontier.results import HostView
from shoal.model.errors import ShoalError
from shoal.services.alerts.conditions import MAX_HOSTS
from shoal.services.alerts.observation import Observation, merged_trouble
from shoal.services.inspect.status import read_status
from shoal.services.schedules.conditions import schedule_alerts
from shoal.stores.contract.monitoring import StoreRoom
from shoal.stores.contract.store import Store
from shoal.worker.figures import WorkerFigures

ROOM_TIMEOUT_S = 5.0


class Hosts(Protocol):
    """The part of a frontier that knows the pace of hosts, and changes it."""

    async def get(self, host: str) -> HostView | None: ...
    async def set(self, host: str, *, rest_until: float) -> object: ...


class StoredHosts:
    """The hosts of a store from outside its running crawls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.get = store.host

    async def set(self, host: str, *, rest_until: float) -> object:
        async with self._store.change() as changes:
            return await changes.set_host(host, rest_until=rest_until)


async def gather(store: Store, hosts: Hosts) -> Observation:
    """Return the state of a store now. Raises `Unavailable` if it does not answer."""
    status = await read_status(store)
    figures = status.figures
    room, troubled, now = await _room(store), await _troubled(hosts, figures), time.time()
    schedules = tuple(schedule_alerts(await store.schedules.all(), now))
    return Observation(now, status, figures, room, troubled, schedules)


async def _room(store: Store) -> StoreRoom | None:
    """Return the room of a store; None: it is not known, for example because INFO is forbidden."""
    try:
        async with asyncio.timeout(ROOM_TIMEOUT_S):
            return await store.room()
    except (ShoalError, OSError, ValueError, TimeoutError):
        return None


async def _troubled(hosts: Hosts, figures: Mapping[str, WorkerFigures]) -> dict[str, HostView]:
    """Return the pace of the hosts with most failures."""
    trouble = sorted(
        merged_trouble([*figures.values()]).values(), key=lambda one: -(one.failures + one.refused)
    )
    found = {}
    for host in trouble[:MAX_HOSTS]:
        try:
            view = await hosts.get(host.host)
        except ShoalError:
            continue  # a folder whose owner is about to end
        if view is not None:
            found[host.host] = view
    return found
