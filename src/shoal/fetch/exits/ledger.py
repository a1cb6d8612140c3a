"""The ledger of a crawl: counts bytes on the wire by exit, and watches the budget.

Every process adds what it has seen to the record of the crawl about once a second, so that the budget holds
for all workers together. It is exceeded by what is in flight in that second at most.
"""

import logging
import time
from collections.abc import Callable

import msgspec

from shoal.fetch.exits.shared_health import SWAPS, SYNC_S, ExitRecords
from shoal.model.exits.exit import ChosenExit, ExitWish
from shoal.model.exits.spending import WARN_AT, Budget, Spending, Traffic, add_costs

log = logging.getLogger(__name__)

CRAWL = "c/"
STOP = "stop"
MAX_UNSYNCED = 0.05  # of a budget, that a process may have spent without telling the others

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Spending).decode


def crawl_key(crawl: str) -> str:
    return f"{CRAWL}{crawl}"


def read_spending(packed: bytes | None) -> Spending:
    """Return a stored record; what cannot be read counts as nothing spent, and the log says so."""
    try:
        return Spending() if packed is None else _decode(packed)
    except msgspec.DecodeError as error:
        log.error("exit.record_unreadable", extra={"entry": "spending", "why": str(error)})
        return Spending()


async def delete_spending(records: ExitRecords, crawl: str) -> None:
    """Delete what a crawl has spent: it was deleted, or starts again."""
    key = crawl_key(crawl)
    if (packed := await records.get(key)) is not None:
        await records.swap(key, packed, None)


class ExitLedger:
    def __init__(
        self,
        crawl: str,
        records: ExitRecords | None,
        *,
        budget: Budget | None = None,
        over_budget: str = STOP,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`over_budget`: `stop`, or the kind of exits to use from then on."""
        self._crawl = crawl
        self._records = records
        self._budget = budget or Budget()
        self._over_budget = over_budget
        self._clock = clock
        self._traffic = Traffic()
        self._synced_at = -SYNC_S
        self._syncing = False
        self._warned = self._spent = False
        self.spending = Spending()

    @property
    def must_stop(self) -> bool:
        """Whether the budget is spent, and the crawl has to end."""
        return self._spent and self._over_budget == STOP

    def count(self, via: ChosenExit, host: str, size: int) -> None:
        """Count the bytes of an exchange through an exit."""
        self._traffic.add(via.name, via.kind, host, size, via.exit.price_gb)

    def wish(self, wish: ExitWish) -> ExitWish:
        """Return what a request may ask of its exit: after the budget is spent, only the cheaper kind."""
        if not self._spent or self._over_budget == STOP:
            return wish
        return ExitWish(self._over_budget, wish.country)

    async def sync(self, *, force: bool = False) -> None:
        """Add what was counted here to the record of the crawl, if that is due."""
        now = self._clock()
        if not force and now - self._synced_at < SYNC_S and self._budget.share(self._traffic) < MAX_UNSYNCED:
            return
        if self._syncing:
            return
        self._syncing, self._synced_at = True, now
        traffic, self._traffic = self._traffic, Traffic()
        try:
            self.spending = await self._add(traffic)
        except BaseException:  # to be added next time
            self._traffic = _joined(traffic, self._traffic)
            raise
        finally:
            self._syncing = False
        self._check()

    async def _add(self, traffic: Traffic) -> Spending:
        if self._records is None:
            return self.spending.plus(traffic)
        key = crawl_key(self._crawl)
        for _ in range(SWAPS):
            before = await self._records.get(key)
            found = read_spending(before)
            if not traffic:
                return found
            after = found.plus(traffic)
            after = msgspec.structs.replace(after, share=round(self._budget.share(after), 4))
            if await self._records.swap(key, before, _encode(after)):
                return after
        self._traffic = _joined(traffic, self._traffic)  # others were faster each time: with the next one
        return self.spending

    def _check(self) -> None:
        if not self._budget:
            return
        share = self._budget.share(self.spending)
        facts = {
            "crawl": self._crawl,
            "share": round(share, 3),
            "cost": round(self.spending.cost, 4),
            "bytes": self.spending.bytes,
        }
        if share >= WARN_AT and not self._warned:
            self._warned = True
            log.warning("budget.nearly_spent", extra=facts)
        if share >= 1.0 and not self._spent:
            self._spent = True
            log.warning("budget.spent", extra={**facts, "then": self._over_budget})


def _joined(one: Traffic, other: Traffic) -> Traffic:
    return Traffic(
        one.exits + other.exits,
        one.kinds + other.kinds,
        one.hosts + other.hosts,
        add_costs(one.costs, other.costs),
    )
