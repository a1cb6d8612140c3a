"""Upkeep: what has to happen again and again while a crawl runs, whatever comes in."""

import asyncio
from collections.abc import Mapping

from shoal.engine.leases import Leases
from shoal.engine.parsing import Parsing
from shoal.engine.stations import Stations


class Maintenance:
    def __init__(self, stations: Stations, leases: Leases, parsing: Parsing) -> None:
        self._crawl = stations.crawl
        self._frontier = stations.frontier
        self._ownership = stations.ownership
        self._every = min(stations.settings.crawl.lease / 4, stations.ownership.patience / 2)
        self._leases = leases
        self._parsing = parsing
        self._saved: Mapping[str, bytes] = {}

    async def run(self) -> None:
        """Extend what is being worked on, settle pages whose parse takes long, and save, until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            await self._leases.extend()
            self._parsing.settle_slow(patience=self._ownership.patience)
            await self.save()

    async def save(self) -> None:
        """Keep what else a resumed crawl should find as it was."""
        state = self._ownership.state()
        if state != self._saved:
            await self._frontier.commit(crawl_state={self._crawl: state})
            self._saved = state
