"""The parts of a fleet's store, in memory."""

from collections.abc import Collection, Mapping, Sequence

from tests.model.frontier import MemoryFrontier
from tests.model.parts import ModelCrawls
from tests.model.reader import ModelReader
from tests.model.state import State

from shoal.frontier.redis.seen import Approximate
from shoal.frontier.results import Added, Opened
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Gone, Settlement
from shoal.model.pace import Pace
from shoal.model.request import Link
from shoal.redis_client import Full, ScriptFault
from shoal.spider.source import PlainSpider
from shoal.stores.contract.crawl_record import CrawlRecord, StoredRecords
from shoal.stores.contract.heartbeat import Heartbeat

FULL = "redis://a.test is full (maxmemory)"


def record(name: str = "shop", **fields: object) -> CrawlRecord:
    values = {"source": PlainSpider(name, ()), "settings": {}, **fields}
    return CrawlRecord(name=name, **values)  # type: ignore[arg-type]


class WriteLog:
    """The writes of a test in their order, without those that found the store full."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.failures = 0  # the next writes that find the store full
        self.full_once: set[str] = set()  # writes that find it full the first time

    def write(self, what: str) -> None:
        if self.failures:
            self.failures -= 1
            raise Full(FULL)
        if what in self.full_once:
            self.full_once.remove(what)
            raise Full(FULL)
        self.writes.append(what)


class FakeSubmittedCrawls:
    def __init__(self, log: WriteLog | None = None) -> None:
        self.records: dict[str, CrawlRecord] = {}
        self.refused: dict[str, str] = {}
        self.announcements = 0
        self.lost: set[str] = set()  # crawls that are gone although no command deleted them
        self._log = log or WriteLog()

    async def submit(self, record: CrawlRecord, *, key: bytes = b"") -> bool:
        self._log.write(f"record {record.name}")
        before = self.records.get(record.name)
        self.records[record.name] = record
        self.announcements += 1
        return before is None or before.revision != record.revision

    async def announce(self) -> None:
        self.announcements += 1

    async def news(self) -> int:
        return self.announcements

    async def remove_secrets(self, record: CrawlRecord, *, key: bytes = b"") -> bool:
        self.records[record.name] = record.without_secrets()
        return True

    async def get(self, name: str) -> CrawlRecord | None:
        return self.records.get(name)

    async def all(self) -> list[CrawlRecord]:
        return list(self.records.values())

    async def was_deleted(self, name: str) -> bool:
        return name not in self.lost

    async def read(self, *, key: bytes = b"") -> StoredRecords:
        return StoredRecords(list(self.records.values()), self.refused)


class NothingDamaged:
    """A store in which every entry can be read."""

    async def __call__(self, tag: str, fault: ScriptFault) -> bool:
        return False

    async def check_all(self) -> int:
        return 0


class NoneLost:
    """All holders are live."""

    async def reclaim(
        self, worker: str, live: Collection[str], *, longest_s: float, ended: Collection[str] = ()
    ) -> int:
        return 0


class FakeHeartbeats:
    def __init__(self, *others: Heartbeat) -> None:
        self.others = others
        self.sent: list[Heartbeat] = []
        self.left: list[str] = []

    async def beat(self, heartbeat: Heartbeat) -> None:
        self.sent.append(heartbeat)

    async def leave(self, worker: str) -> None:
        self.left.append(worker)

    async def all(self) -> Sequence[Heartbeat]:
        return [*self.others, *self.sent[-1:]]


def heartbeat(worker: str, pools: tuple[str, ...] = ("http",)) -> Heartbeat:
    return Heartbeat(
        worker=worker,
        host="machine",
        pid=1,
        roles=("fetch",),
        pools=pools,
        shoal="1",
        started_at=0.0,
        beaten_at=0.0,
        doing="working",
    )


class NumberedReader(ModelReader):
    """A reader that knows the number of each crawl."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.numbers: dict[str, int] = {}

    async def number(self, crawl: str) -> int:
        if crawl not in self.numbers:
            raise Misconfigured(f"the store has no crawl named {crawl!r}")
        return self.numbers[crawl]


class NumberedCrawls(ModelCrawls):
    """Crawls that get a number when they are created, as on Redis."""

    def __init__(self, state: State, reader: NumberedReader, log: WriteLog) -> None:
        super().__init__(state)
        self._reader = reader
        self._log = log
        self._last = 0
        self.approximate: Approximate | None = None  # of the latest call

    async def open(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        state: Mapping[str, bytes] | None = None,
        approximate: Approximate | None = None,
        may_be_new: bool = True,
    ) -> Opened:
        self._log.write(f"crawl {name}")
        self.approximate = approximate
        if name not in self._reader.numbers:
            self._last += 1
            self._reader.numbers[name] = self._last
        return await super().open(
            name,
            pace=pace,
            max_crashes=max_crashes,
            slowdown=slowdown,
            host_budget=host_budget,
            hosts=hosts,
            state=state,
        )

    async def delete(
        self, name: str, *, checkpoints: object = (), entirely: bool = False, keep: int = 1
    ) -> bool:
        self._log.write(f"delete {name}")
        self._reader.numbers.pop(name, None)
        return await super().delete(name, entirely=entirely, keep=keep)


class SharedFrontier(MemoryFrontier):
    """A fleet's frontier in memory."""

    reader: NumberedReader
    crawls: NumberedCrawls

    def __init__(self, log: WriteLog | None = None) -> None:
        super().__init__()
        self._log = log or WriteLog()
        self.reader = NumberedReader(self._state)
        self.crawls = NumberedCrawls(self._state, self.reader, self._log)

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        self._log.write(f"{len(links)} seeds")
        return await super().add(crawl, links)

    async def finish(self, crawl: str) -> None:
        """End every request of a crawl."""
        while (await self.reader.counts(crawl)).open:
            grant = await self.lease(holder="h", limit=100, ttl=60.0, crawls=[crawl])
            await self.settle([Settlement(lease, Gone(404)) for lease in grant.leases])


class FakeFleet:
    """What a submission reads and writes."""

    def __init__(self, *workers: Heartbeat) -> None:
        self.log = WriteLog()
        self.frontier = SharedFrontier(self.log)
        self.crawls = FakeSubmittedCrawls(self.log)
        self.workers = FakeHeartbeats(*workers)
