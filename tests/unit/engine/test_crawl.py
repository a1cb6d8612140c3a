"""Running a crawl: from its first lease to its last commit, and how it stops."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.model import MemoryFrontier
from tests.unit.engine.leased import AtHundred

from shoal.archive.reader import StoredPage
from shoal.engine.crawl import Crawl
from shoal.engine.generations.earlier import EarlierPage, PageResult
from shoal.engine.outputs import Durable, Ended
from shoal.engine.plan import Stop
from shoal.engine.scope_state import ScopeState
from shoal.engine.snapshot import Ending, Snapshot
from shoal.engine.stations import Locations, PageQuota, Stations, WorkShare
from shoal.fetch.contract import Attempt
from shoal.frontier import Committed, Counts, Unparsed
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.errors import Unavailable
from shoal.model.failure import Failure, FailureClass
from shoal.model.generations.page_history import PageHistory
from shoal.model.outcome import Acknowledgement, Dead, Lease, Settlement
from shoal.model.pace import Pace
from shoal.model.page import PageRecord, PageRef, ParseResult, ParseTask, Response
from shoal.model.request import Link, Request, pack
from shoal.model.scope import Scope
from shoal.model.settings import CrawlSettings, Settings
from shoal.parse.pool import Poisoned
from shoal.spider.source import SpiderDescription

NO_LIMIT = Pace(interval=0.0, burst=100, concurrency=100)
SLOTS = 4


def link(path: object) -> Link:
    return Link.to(Request(url=f"http://a.test/{path}"))


class LoggedFrontier(MemoryFrontier):
    """The model, with a log of its commits."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(clock=lambda: 100.0)
        self._log = log

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        outcomes = [type(settlement.outcome).__name__ for settlement in settlements]
        outcomes += [type(acknowledgement.outcome).__name__ for acknowledgement in acknowledgements]
        self._log.append(f"commit {' '.join([*outcomes, *checkpoints, *crawl_state.get('c', {})])}")
        return await super().commit(settlements, acknowledgements, checkpoints, crawl_state)


class Site:
    """Answers every request, but those for `slow` paths only when `answer` is set."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.slow: frozenset[str] = frozenset()
        self.dead: frozenset[str] = frozenset()
        self.answer = asyncio.Event()
        self.asked = asyncio.Event()  # for a slow path
        self.most_at_once = 0
        self._at_once = 0

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        path = lease.request.url.rpartition("/")[2]
        self.requests.append(path)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if path in self.slow:
                self.asked.set()
                await self.answer.wait()
            else:
                await asyncio.sleep(0)
        finally:
            self._at_once -= 1
        if path in self.dead:
            return Attempt(lease, outcome=Dead(Failure(FailureClass.TIMEOUT, "slow")), sent=True)
        response = Response(lease.request.url, 200, (), b"body", b"body", fetched_at=100.0, elapsed=0.1)
        return Attempt(lease, response, parse=True, sent=True)


class FakeChildren:
    """Parse children that find the links of `links`; while `hang` is set, `answer` answers."""

    description = SpiderDescription(name="shop")
    sandbox_warning = ""

    def __init__(self) -> None:
        self.links: dict[str, tuple[str, ...]] = {}
        self.hang = False
        self.submitted = asyncio.Event()
        self.broken = asyncio.Event()
        self.pages = self.bytes = 0
        self._unanswered: list[Callable[[], None]] = []

    @property
    def backlog(self) -> "FakeChildren":
        return self

    def configure(self, scope: Scope) -> None:
        pass

    def submit(self, task: ParseTask, on_answer: Callable[[ParseResult | Poisoned], None]) -> None:
        self.submitted.set()
        names = self.links.get(task.url.rpartition("/")[2], ())
        found = [
            Request(url=f"http://a.test/{name}", depth=task.request.depth + 1, found_on=task.fingerprint)
            for name in names
        ]
        self._unanswered.append(partial(on_answer, ParseResult(task.id, requests=tuple(map(pack, found)))))
        if not self.hang:
            asyncio.get_running_loop().call_soon(self.answer)

    def answer(self) -> None:
        """Answer the page that has waited longest."""
        self._unanswered.pop(0)()

    async def watch(self) -> None:
        await self.broken.wait()
        raise Unavailable("the fork server has ended")


class FakeArchive:
    def keep(self, request: Request, sent: object, response: Response, earlier: object) -> PageRecord:
        return PageRecord(PageRef("segment", 0, 1), response.status, response.fetched_at)

    def visible_page(self, response: Response, earlier: object) -> Response | StoredPage:
        return response

    def keep_result(self, url: str, result: PageResult, at: float) -> PageRef:
        return PageRef("segment", 1, 1)

    async def earlier(self, history: PageHistory, identity: bytes) -> EarlierPage:
        return EarlierPage(history)

    async def compare(self, response: Response, earlier: EarlierPage) -> EarlierPage:
        return earlier

    async def read_result(self, ref: PageRef) -> PageResult | None:
        return None

    async def read(self, ref: PageRef) -> StoredPage:
        return StoredPage(ref, "http://a.test/archived", 200, (), b"", b"", 0.0, "digest")


class LoggedOutputs:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def put(self, ended: Ended, result: ParseResult) -> Ended:
        return ended

    async def flush(self) -> Durable:
        self._log.append("outputs.flush")
        return Durable()

    async def finish(self) -> Durable:
        self._log.append("outputs.finish")
        return Durable({"sinks": b"end"})


class OneProcess(AtHundred):
    """The ownership of one process; `settle_after_stop` as a test sets it."""

    settle_after = math.inf

    def __init__(self, settle_after_stop: float) -> None:
        super().__init__()
        self.settle_after_stop = settle_after_stop

    def state(self) -> Mapping[str, bytes]:
        return {"cookies": b"[]"}


class LoggedQuota:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    async def take(self, held: int, wanted: int) -> int:
        return wanted

    async def leave(self) -> None:
        self._log.append("quota.leave")


class Bench:
    def __init__(self, *, settle_after_stop: float = 0.0, **crawl: float) -> None:
        self.log: list[str] = []
        self.frontier = LoggedFrontier(self.log)
        self.site, self.children = Site(), FakeChildren()
        self.stop = Stop()
        self.quota: PageQuota | None = None
        self.unparsed: AsyncIterator[Unparsed] | None = None
        self.share = WorkShare()
        self.no_exit: Callable[[], str] | None = None
        self._ownership = OneProcess(settle_after_stop)
        values = {"concurrency": SLOTS, "grace": 60.0, **crawl}
        self._settings = Settings(crawl=CrawlSettings(**values))  # type: ignore[arg-type]

    async def add(self, *paths: object) -> None:
        await self.frontier.crawls.open("c", pace=NO_LIMIT)
        await self.frontier.add("c", [link(path) for path in paths])

    def crawl(self) -> Crawl:
        return Crawl(
            Stations(
                crawl="c",
                holder="h",
                settings=self._settings,
                locations=Locations("store", "archive", (), Path("rejects")),
                frontier=self.frontier,
                fetcher=self.site,
                pages=FakeArchive(),
                parser=self.children,
                outputs=LoggedOutputs(self.log),
                unparsed=self.unparsed,
                ownership=self._ownership,
                scope=ScopeState(Scope(), self.children),
                totals=CrawlTotals(),
                quota=self.quota,
                share=self.share,
                no_exit=self.no_exit,
            )
        )

    async def run(self, watch: Callable[[Snapshot], None] | None = None) -> Ending:
        async with asyncio.timeout(10.0):
            return await self.crawl().run(self.stop, watch)

    @asynccontextmanager
    async def running(self, until: asyncio.Event) -> AsyncIterator["asyncio.Task[Ending]"]:
        """Run a crawl; the block begins when `until` is set."""
        async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
            ending = group.create_task(self.crawl().run(self.stop, None))
            await until.wait()
            yield ending

    async def counts(self) -> Counts:
        return await self.frontier.reader.counts("c")

    async def attempt_of_next_lease(self) -> int:
        [lease] = (await self.frontier.lease(holder="h2", limit=1, ttl=60.0)).leases
        return lease.attempt


# --- to the end --------------------------------------------------------------------------------------


async def test_every_request_and_every_link_is_fetched_once() -> None:
    bench = Bench()
    await bench.add(1, 2)
    bench.children.links = {"1": ("2", "3"), "3": ("4", "1")}

    assert await bench.run() is Ending.FINISHED
    assert sorted(bench.site.requests) == ["1", "2", "3", "4"]
    assert ((await bench.counts()).done, (await bench.counts()).open) == (4, 0)


async def test_no_more_requests_are_in_flight_than_the_concurrency_of_the_crawl() -> None:
    bench = Bench()
    await bench.add(*range(40))
    await bench.run()

    assert len(bench.site.requests) == 40
    assert bench.site.most_at_once == SLOTS


async def test_a_crawl_without_requests_ends_at_once() -> None:
    bench = Bench()
    await bench.add()

    assert await bench.run() is Ending.FINISHED


async def test_a_crawl_with_dead_letters_is_finished() -> None:
    bench = Bench()
    await bench.add(1, 2)
    bench.site.dead = frozenset({"1"})

    assert await bench.run() is Ending.FINISHED
    assert ((await bench.counts()).dead, (await bench.counts()).done) == (1, 1)


async def test_a_crawl_that_has_reached_its_page_limit_ends_as_limited() -> None:
    bench = Bench(max_pages=1, concurrency=1)
    await bench.add(1)
    bench.children.links = {"1": ("2",)}
    bench.quota = OnePage(bench.frontier)

    assert await bench.run() is Ending.LIMITED
    assert bench.site.requests == ["1"]
    assert (await bench.counts()).waiting == 1


class OnePage:
    """A page quota of one page."""

    def __init__(self, frontier: MemoryFrontier) -> None:
        self._frontier = frontier

    async def take(self, held: int, wanted: int) -> int:
        counts = await self._frontier.reader.counts("c")
        return min(wanted, 1 - counts.done - counts.leased - counts.parsing)

    async def leave(self) -> None:
        pass


async def test_a_crawl_that_ends_without_an_exit_says_so_even_if_an_answer_comes_then() -> None:
    bench = Bench()
    await bench.add(*range(100))
    asked = 0

    def no_exit() -> str:
        nonlocal asked
        asked += 1
        return "no exit works" if asked == 2 else ""

    bench.no_exit = no_exit
    async with asyncio.timeout(10.0):
        crawl = bench.crawl()
        ending = await crawl.run(bench.stop, None)
        summary = await crawl.summary(ending)
    assert (ending, summary.no_exit) == (Ending.NO_EXIT, "no exit works")


async def test_the_outputs_are_finished_after_the_last_page_and_the_quota_is_released_last() -> None:
    bench = Bench()
    await bench.add(1)
    bench.quota = LoggedQuota(bench.log)
    await bench.run()

    assert bench.log == [
        "outputs.flush",
        "commit Done",
        "commit cookies traps/local",
        "outputs.finish",
        "commit sinks",
        "quota.leave",
    ]
    assert await bench.frontier.reader.checkpoint("sinks") == b"end"
    assert await bench.frontier.reader.value("c", "cookies") == b"[]"


async def test_the_watcher_sees_the_crawl_while_it_runs() -> None:
    bench = Bench()
    await bench.add(1, 2)
    bench.site.slow = frozenset({"1"})
    snapshots: list[Snapshot] = []

    def watch(snapshot: Snapshot) -> None:
        snapshots.append(snapshot)
        bench.site.answer.set()

    await bench.run(watch)

    assert (snapshots[0].crawl, snapshots[0].draining) == ("c", False)
    assert snapshots[0].counts["done"] == 0


async def test_the_figures_of_a_run_are_those_of_its_pages() -> None:
    bench = Bench()
    await bench.add(1, 2, 3)
    bench.site.dead = frozenset({"3"})
    crawl = bench.crawl()
    ending = await crawl.run(bench.stop, None)

    assert (crawl.pages, crawl.in_flight, crawl.fetches) == (2, 0, True)
    assert (crawl.done.pages, crawl.done.bytes, crawl.done.failures) == (2, 8, {"timeout": 1})
    assert (await crawl.summary(ending)).dead_by_class == {"timeout": 1}


# --- stopping ----------------------------------------------------------------------------------------


async def test_a_drain_finishes_what_is_in_flight_and_releases_the_rest() -> None:
    bench = Bench(concurrency=1)
    await bench.add(*range(10))
    bench.site.slow = frozenset(map(str, range(10)))
    async with bench.running(until=bench.site.asked) as ending:
        bench.stop.ask()
        await asyncio.sleep(0.01)
        assert not ending.done()
        bench.site.answer.set()

    assert ending.result() is Ending.INTERRUPTED
    assert len(bench.site.requests) == 1
    counts = await bench.counts()
    assert (counts.done, counts.waiting, counts.leased) == (1, 9, 0)


async def test_a_drain_waits_for_the_pages_that_are_being_parsed() -> None:
    bench = Bench()
    await bench.add(1)
    bench.children.hang = True
    async with bench.running(until=bench.children.submitted) as ending:
        bench.stop.ask()
        await asyncio.sleep(0.01)
        assert not ending.done()
        bench.children.answer()

    assert ending.result() is Ending.FINISHED
    assert (await bench.counts()).done == 1


@pytest.mark.parametrize(("grace", "times"), [(0.0, 1), (0.01, 1), (60.0, 2)])
async def test_what_is_in_flight_after_the_grace_or_a_second_stop_is_released_as_no_attempt(
    grace: float, times: int
) -> None:
    bench = Bench(grace=grace)
    await bench.add(1)
    bench.site.slow = frozenset({"1"})
    async with bench.running(until=bench.site.asked) as ending:
        for _ in range(times):
            bench.stop.ask()

    assert ending.result() is Ending.INTERRUPTED
    assert bench.log == [
        "outputs.flush",
        "commit Released",
        "commit cookies traps/local",
        "outputs.finish",
        "commit sinks",
    ]
    assert (await bench.counts()).waiting == 1
    assert await bench.attempt_of_next_lease() == 1


async def test_a_crawl_that_is_asked_to_stop_before_it_starts_fetches_nothing() -> None:
    bench = Bench()
    await bench.add(1)
    bench.stop.ask()

    assert await bench.run() is Ending.INTERRUPTED
    assert bench.site.requests == []
    assert (await bench.counts()).waiting == 1


@pytest.mark.parametrize(
    ("settle_after_stop", "outcome", "parsing"), [(0.0, "Fetched", 1), (math.inf, "Released", 0)]
)
async def test_a_page_that_is_still_parsed_at_the_end_is_kept_or_released_as_the_ownership_decides(
    settle_after_stop: float, outcome: str, parsing: int
) -> None:
    bench = Bench(settle_after_stop=settle_after_stop, grace=0.0)
    await bench.add(1)
    bench.children.hang = True
    async with bench.running(until=bench.children.submitted) as ending:
        bench.stop.ask()

    assert ending.result() is Ending.INTERRUPTED
    assert bench.log[:2] == ["outputs.flush", f"commit {outcome}"]
    counts = await bench.counts()
    assert (counts.parsing, counts.waiting, counts.leased) == (parsing, 1 - parsing, 0)


@pytest.mark.parametrize("fetches", [True, False])
async def test_the_next_run_parses_what_an_interrupted_one_has_fetched(fetches: bool) -> None:
    bench = Bench(grace=0.0)
    await bench.add(1)
    bench.children.hang = True
    async with bench.running(until=bench.children.submitted):
        bench.stop.ask()
    bench.frontier.restart()
    await bench.frontier.crawls.open("c")

    bench.children, bench.stop = FakeChildren(), Stop()
    bench.unparsed, bench.share = bench.frontier.parsing("c"), WorkShare(fetches=fetches)

    assert await bench.run() is Ending.FINISHED
    assert bench.site.requests == ["1"]
    assert (await bench.counts()).done == 1


async def test_a_worker_that_does_not_fetch_takes_no_leases_and_stops_when_asked() -> None:
    bench = Bench()
    await bench.add(1)
    bench.share = WorkShare(fetches=False)
    crawl = bench.crawl()
    async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
        ending = group.create_task(crawl.run(bench.stop, None))
        await asyncio.sleep(0.01)
        bench.stop.ask()

    assert ending.result() is Ending.INTERRUPTED
    assert (bench.site.requests, crawl.fetches) == ([], False)


async def test_a_parse_pool_that_cannot_answer_any_more_ends_the_crawl() -> None:
    bench = Bench()
    await bench.add(1)
    bench.children.hang = True
    bench.children.broken.set()

    with pytest.raises(ExceptionGroup) as raised:
        await bench.run()
    assert raised.group_contains(Unavailable, match="fork server")
