"""Submitting a crawl: what is written, in which order, and what a plan that cannot work leaves behind."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.stores.fleets import FakeFleet

from shoal.engine.plan import CrawlPlan, Stop
from shoal.fetch.cookies import CookieJar
from shoal.model.errors import Interrupted, Misconfigured
from shoal.model.request import Request
from shoal.model.settings import CrawlSettings, Settings
from shoal.redis_client import Full
from shoal.services.backpressure import Backpressure
from shoal.services.submit import Submission, Submitted, submitted_json
from shoal.spider.source import PlainSpider, SpiderDescription, SpiderFile
from shoal.stores.contract.record_reader import settings_of

SEEDS = (Request(url="http://a.test/1"), Request(url="http://a.test/2"))
SPIDER = SpiderDescription(name="shop", start=SEEDS, version="v1")
PLAN = CrawlPlan(PlainSpider("shop", ()), Settings(store="redis://:secret@a.test"))
ABSOLUTE = str(Path("items.csv").absolute())


def with_crawl_settings(plan: CrawlPlan, **crawl: Any) -> CrawlPlan:
    return replace(plan, settings=replace(plan.settings, crawl=CrawlSettings(**crawl)))


class ListedSeeds:
    """A list of start URLs in pieces; `stop` is asked for when the piece `stop_at` is read."""

    def __init__(self, *pieces: Sequence[str], stop: Stop | None = None, stop_at: int = -1) -> None:
        self.first = pieces[0][0]
        self.new = self.known = self.bad = 0
        self._pieces = pieces
        self._stop = stop
        self._stop_at = stop_at

    async def pieces(self) -> AsyncGenerator[Sequence[str], None]:
        for number, piece in enumerate(self._pieces):
            if self._stop is not None and number == self._stop_at:
                self._stop.ask()
            yield piece


class Bench:
    """A fleet's store, to which one process after another submits."""

    def __init__(self) -> None:
        self.fleet = FakeFleet()
        self.stop = Stop()
        self.messages: list[str] = []

    async def submit(self, plan: CrawlPlan = PLAN, spider: SpiderDescription = SPIDER) -> Submitted:
        self.fleet.log.writes.clear()
        self.fleet.frontier.restart()  # of the process that submits
        backpressure = Backpressure(self.fleet, self.stop, self.messages.append, retry_s=0.0)
        submission = Submission(self.fleet.frontier, self.fleet.crawls, plan, spider, backpressure)
        return await submission.run(self.stop)

    @property
    def writes(self) -> list[str]:
        return self.fleet.log.writes


async def test_workers_learn_of_a_crawl_after_its_seeds_are_queued() -> None:
    bench = Bench()
    await bench.submit()

    assert bench.writes == ["crawl shop", "2 seeds", "record shop"]
    assert (await bench.fleet.frontier.reader.counts("shop")).waiting == 2


async def test_the_record_has_what_a_worker_needs_and_no_password_of_the_store(tmp_path: Path) -> None:
    bench = Bench()
    path = tmp_path / "shop.py"
    path.write_text("code")
    plan = replace(PLAN, source=SpiderFile(path=str(path), attribute="spider"), outputs=("items.csv",))
    await bench.submit(plan, SpiderDescription(name="shop", start=SEEDS, options={"depth": 3}, version="v1"))

    record = bench.fleet.crawls.records["shop"]
    assert record.number == await bench.fleet.frontier.reader.number("shop")
    assert (record.source, record.text) == (SpiderFile(path="shop.py", attribute="spider"), b"code")
    assert (record.version, record.hosts) == ("v1", ("a.test",))
    assert record.outputs == (ABSOLUTE,)
    assert settings_of(record) == replace(PLAN.settings, store="", crawl=CrawlSettings(depth=3))


async def test_the_record_names_the_origins_of_the_seeds_if_a_header_is_secret() -> None:
    bench = Bench()
    await bench.submit()
    assert bench.fleet.crawls.records["shop"].home == ()

    plan = with_crawl_settings(
        PLAN, headers={"X-Api-Key": "s3cret", "Accept": "*/*"}, cookies={"id": "s3cret"}
    )
    await bench.submit(plan)
    other = SpiderDescription(name="shop", start=(Request(url="https://b.test:8443/"),), version="v1")
    await bench.submit(replace(plan, name="shop"), other)

    record = bench.fleet.crawls.records["shop"]
    assert record.home == ("http://a.test", "https://b.test:8443")
    stripped = record.without_secrets()
    assert b"s3cret" not in msgspec.msgpack.encode(stripped)
    assert settings_of(stripped).crawl.headers == {"Accept": "*/*"}
    assert stripped.without_secrets().revision == stripped.revision != record.revision


@pytest.mark.parametrize(
    ("plan", "spider", "reason"),
    [
        (PLAN, SpiderDescription(name="shop"), "has nowhere to start"),
        (replace(PLAN, seeds=("ftp://a.test/",)), SPIDER, "only http and https"),
        (PLAN, SpiderDescription(name="shop", start=SEEDS, options={"depth": "deep"}), "spider 'shop'"),
        (replace(PLAN, outputs=("-",)), SPIDER, "a fleet has no standard output"),
        (replace(PLAN, outputs=("items.unknown",)), SPIDER, "items.unknown"),
        (replace(PLAN, outputs=("items.csv", "-"), fresh=True), SPIDER, "a fleet has no standard output"),
        (
            with_crawl_settings(PLAN, cookie_file="/missing/cookies.txt"),
            SPIDER,
            "crawl.cookie_file: cannot be read",
        ),
    ],
)
async def test_a_plan_that_cannot_work_writes_nothing(
    plan: CrawlPlan, spider: SpiderDescription, reason: str
) -> None:
    bench = Bench()

    with pytest.raises(Misconfigured, match=reason):
        await bench.submit(plan, spider)
    assert bench.writes == []


async def test_what_was_new_and_what_was_known_is_reported() -> None:
    bench = Bench()
    first = await bench.submit()
    assert (first.crawl, first.version) == ("shop", "v1")
    assert (first.resumed, first.changed, first.added, first.known) == (False, True, 2, 0)

    again = await bench.submit()
    assert (again.resumed, again.changed, again.added, again.known) == (True, False, 0, 2)

    more = await bench.submit(replace(PLAN, name="shop", seeds=("http://a.test/2", "http://a.test/3")))
    assert (more.resumed, more.changed, more.added, more.known) == (True, False, 1, 1)
    assert submitted_json(more)["added"] == 1


async def test_other_settings_make_another_record_and_keep_the_queue() -> None:
    bench = Bench()
    await bench.submit()
    number = bench.fleet.crawls.records["shop"].number

    submitted = await bench.submit(with_crawl_settings(PLAN, depth=1))

    assert submitted.changed
    assert bench.fleet.crawls.records["shop"].number == number
    assert (await bench.fleet.frontier.reader.counts("shop")).waiting == 2


async def test_a_fresh_crawl_is_deleted_first_and_gets_another_number() -> None:
    bench = Bench()
    await bench.submit()
    before = bench.fleet.crawls.records["shop"]

    submitted = await bench.submit(replace(PLAN, fresh=True))

    assert bench.writes == ["delete shop", "crawl shop", "2 seeds", "record shop"]
    assert (submitted.resumed, submitted.added, submitted.known) == (False, 2, 0)
    record = bench.fleet.crawls.records["shop"]
    assert record.number != before.number
    assert (before.overwrite, record.overwrite) == (False, True)


@pytest.mark.parametrize(("fresh", "hosts"), [(False, ("a.test", "b.test")), (True, ("b.test",))])
async def test_hosts_of_earlier_seeds_stay_in_scope_unless_the_crawl_is_fresh(
    fresh: bool, hosts: tuple[str, ...]
) -> None:
    bench = Bench()
    await bench.submit()
    await bench.submit(replace(PLAN, name="shop", seeds=("http://b.test/",), fresh=fresh))

    assert bench.fleet.crawls.records["shop"].hosts == hosts


async def test_the_name_of_the_plan_beats_that_of_the_spider() -> None:
    bench = Bench()
    submitted = await bench.submit(replace(PLAN, name="sale"))

    assert submitted.crawl == "sale"
    assert list(bench.fleet.crawls.records) == ["sale"]
    assert [Path(output).name for output in submitted.outputs] == ["sale.jsonl"]


async def test_passwords_of_outputs_are_in_the_record_and_not_in_the_report() -> None:
    bench = Bench()
    output = "postgresql://user:secret@a.test/items"
    submitted = await bench.submit(replace(PLAN, outputs=(output,)))

    assert "secret" not in "".join(submitted.outputs)
    assert bench.fleet.crawls.records["shop"].outputs == (output,)


async def test_an_approximate_seen_set_is_asked_for_when_the_crawl_is_created() -> None:
    bench = Bench()
    await bench.submit()
    assert bench.fleet.frontier.crawls.approximate is None

    await bench.submit(with_crawl_settings(PLAN, approximate_links=1_000_000))
    assert bench.fleet.frontier.crawls.approximate is not None


async def test_another_command_of_the_same_host_is_refused_and_writes_nothing() -> None:
    bench = Bench()
    await bench.submit()
    with pytest.raises(Misconfigured, match=r"another command.*--crawl NAME.*--fresh"):
        await bench.submit(replace(PLAN, seeds=("http://a.test/other",)))
    assert bench.writes == []


# --- lists of start URLs -----------------------------------------------------------------------------


PIECES = (["http://a.test/1", "http://b.test/1"], ["http://c.test/1", "http://a.test/1"])


async def test_a_list_that_determines_the_scope_is_complete_before_workers_start() -> None:
    bench = Bench()
    submitted = await bench.submit(replace(PLAN, listed=ListedSeeds(*PIECES)))

    assert bench.writes == ["crawl shop", "2 seeds", "2 seeds", "record shop"]
    assert (submitted.added, submitted.known) == (3, 1)
    assert bench.fleet.crawls.records["shop"].hosts == ("a.test", "b.test", "c.test")


async def test_workers_start_after_the_first_piece_of_a_list_that_nothing_depends_on() -> None:
    bench = Bench()
    plan = with_crawl_settings(replace(PLAN, listed=ListedSeeds(*PIECES)), same_host=False)
    submitted = await bench.submit(plan)

    assert bench.writes == [
        "crawl shop",
        "2 seeds",
        "record shop",
        "2 seeds",
        "record shop",
        "record shop",
    ]
    assert submitted.changed
    assert bench.fleet.crawls.records["shop"].hosts is None


async def test_given_cookies_go_to_the_hosts_of_a_list() -> None:
    bench = Bench()
    plan = with_crawl_settings(replace(PLAN, listed=ListedSeeds(*PIECES)), cookies={"session": "7"})
    await bench.submit(plan)

    jar = CookieJar.load(bench.fleet.crawls.records["shop"].cookies)
    assert jar.header("http://c.test/", 0.0) == "session=7"
    assert jar.header("http://d.test/", 0.0) == ""


async def test_an_interrupted_list_keeps_its_seeds_and_the_next_submission_completes_it() -> None:
    bench = Bench()
    listed = ListedSeeds(*PIECES, stop=bench.stop, stop_at=1)
    with pytest.raises(Interrupted, match=r"that were added \(2\) are kept"):
        await bench.submit(replace(PLAN, listed=listed))
    assert bench.writes == ["crawl shop", "2 seeds"]

    bench.stop = Stop()
    submitted = await bench.submit(replace(PLAN, listed=ListedSeeds(*PIECES)))

    assert (submitted.resumed, submitted.added, submitted.known) == (True, 1, 3)
    assert "shop" in bench.fleet.crawls.records


# --- a full store ------------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", ["crawl shop", "2 seeds", "record shop"])
async def test_a_submission_waits_for_space_at_every_write(refused: str) -> None:
    bench = Bench()
    await bench.submit(replace(PLAN, name="other"))  # it has work left
    bench.fleet.log.full_once.add(refused)
    await bench.submit()

    assert bench.writes == ["crawl shop", "2 seeds", "record shop"]
    assert len(bench.messages) == 1


async def test_a_full_store_without_work_refuses_a_crawl_and_has_nothing_of_it() -> None:
    bench = Bench()
    bench.fleet.log.failures = 1
    with pytest.raises(Full, match="no crawl has work left"):
        await bench.submit()

    assert bench.writes == []
    assert bench.messages == []
