"""One attempt: a lease that a slot has taken, fetched once, and passed on to be parsed or to be settled."""

import logging
import time

from shoal.archive.reader import StoredPage
from shoal.engine.counters import Counters
from shoal.engine.leases import Leases
from shoal.engine.parsing import Parsing
from shoal.engine.stations import Stations
from shoal.model.errors import ShoalError
from shoal.model.outcome import Dead, Lease, Settlement, internal

log = logging.getLogger(__name__)


class Attempts:
    def __init__(self, stations: Stations, leases: Leases, parsing: Parsing, tally: Counters) -> None:
        self._crawl = stations.crawl
        self._frontier = stations.frontier
        self._fetcher = stations.fetcher
        self._pages = stations.pages
        self._leases = leases
        self._parsing = parsing
        self._tally = tally

    async def make(self, lease: Lease) -> None:
        """Fetch a request, and pass on what came of it."""
        if self._leases.gave_up(lease):
            return  # this process was stopped: the request is waiting again, or others have it by now
        try:
            await self._make(lease)
        except ShoalError:
            raise
        except Exception as error:  # a bug of ours must cost one request, loudly, and not the crawl
            log.exception("attempt.internal", extra={"url": lease.request.url})
            self._end(Settlement(lease, Dead(internal(error))))

    async def _make(self, lease: Lease) -> None:
        began = time.monotonic()
        earlier = await self._earlier(lease)
        attempt = await self._fetcher.attempt(
            lease,
            etag=earlier.header("etag") if earlier else "",
            modified=earlier.header("last-modified") if earlier else "",
        )
        if attempt.crawl_delay is not None and attempt.crawl_delay > lease.interval:
            await self._frontier.hosts.set(lease.host, crawl_delay=attempt.crawl_delay)
        if attempt.response is not None:
            self._tally.bytes += len(attempt.response.wire)
        if attempt.outcome is None:
            self._frontier.landed([lease])
            self._parsing.take(attempt, earlier)
            return
        self._end(
            Settlement(
                lease,
                attempt.outcome,
                attempt.links,
                blocked=attempt.blocked,
                sent=attempt.sent,
                elapsed=time.monotonic() - began,
            )
        )

    async def _earlier(self, lease: Lease) -> StoredPage | None:
        """Find the page as the crawl's previous generation left it, if it can be asked for again."""
        known = await self._frontier.validators(self._crawl, [lease.fingerprint])
        if (validator := known.get(lease.fingerprint)) is None or not (validator.etag or validator.modified):
            return None
        return self._pages.earlier(validator.ref)

    def _end(self, settlement: Settlement) -> None:
        """Settle an attempt that brought no page; if that was the end, the hook has its say first."""
        self._tally.outcome(settlement.outcome)
        if self._parsing.take_failed(settlement):
            self._frontier.landed([settlement.lease])
        else:
            self._leases.settle(settlement)
