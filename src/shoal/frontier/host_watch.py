"""Notice when many responses of a host are trouble of one kind, and say which remedy fits.

Each process watches its own responses. The governor of the host, which slows it down, has those of all
processes (`frontier/governor.py`, `HostView.spike`).
"""

import logging

from shoal.frontier.rules import host_signal
from shoal.model.adaptive_delay import HostRemedy, Spike, TroubleWindows
from shoal.model.outcome import Settlement

log = logging.getLogger(__name__)


class HostWatch:
    def __init__(self, crawl: str) -> None:
        self._crawl = crawl
        self._windows = TroubleWindows()
        self._spikes: dict[str, Spike] = {}

    def note(self, settlement: Settlement) -> None:
        """Take note of how an attempt ended; log the begin and the end of a spike."""
        if (signal := host_signal(settlement)) is not None:
            host = settlement.lease.host
            self._compare(host, self._windows.note(host, signal))

    def _compare(self, host: str, spike: Spike | None) -> None:
        before = self._spikes.get(host)
        if spike is None:
            if before is not None:
                del self._spikes[host]
                log.info("host.recovered", extra={"crawl": self._crawl, "host": host, "kind": before.kind})
            return
        self._spikes[host] = spike
        if len(self._spikes) > TroubleWindows.MAX_HOSTS:
            del self._spikes[next(iter(self._spikes))]
        if before is None or before.signal != spike.signal:
            facts = {"kind": spike.kind, "count": spike.count, "responses": spike.responses}
            log.warning(
                "host.trouble",
                extra={"crawl": self._crawl, "host": host, **facts, "remedy": spike.remedy.value},
            )

    def remedy(self, host: str) -> HostRemedy | None:
        """Return what helps against the trouble of a host; None: it has none."""
        spike = self._spikes.get(host)
        return None if spike is None else spike.remedy
