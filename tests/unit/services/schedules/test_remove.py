"""Which files a run leaves that `keep` removes; a store that an attacker has written deletes no others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.unit.services.schedules.test_rules import START, Records, schedule

from shoal.archive.registry import crawl_location
from shoal.model.configuration.crawl_definition import CrawlDefinition
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings
from shoal.services.schedules.manage import STATE, read_state
from shoal.services.schedules.remove import discard_empty, remove_run
from shoal.services.schedules.rules import stamp_of
from shoal.services.schedules.scheduler import CrawlScheduler
from shoal.sinks.drafts import draft_of, show
from shoal.spider.source import PlainSpider
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.footprint import CrawlFootprint
from shoal.stores.contract.schedules import RunState, Schedule, ScheduledRun, ScheduleState
from shoal.stores.open import open_store

STAMP = stamp_of(START)
RUN = ScheduledRun(tick=START, state=RunState.DONE, crawl="a")


class Shared:
    """A shared store, as far as a generation is removed from it."""

    class capabilities:  # noqa: N801
        shared = True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place in ("own", "other"):
        (tmp_path / place).mkdir()
        for name in (f"a-{STAMP}.csv", f"b-{STAMP}.csv", "a.csv"):
            (tmp_path / place / name).write_text("items")
            (tmp_path / place / f"{name}.shoal.lock").write_text("")
            if not name.startswith("b"):
                (tmp_path / place / f"{name}.shoal").write_text("")
    (tmp_path / "own" / f"link-{STAMP}").symlink_to(tmp_path / "other")
    return tmp_path


@pytest.mark.parametrize(
    ("output", "removed"),
    [
        ("a-{tick}.csv", True),
        ("b-{tick}.csv", False),  # nothing shows that a fleet has written it
        ("{tick}/../a.csv", False),
        ("../other/a-{tick}.csv", False),
        ("link-{tick}/a-{tick}.csv", False),
        ("a.csv", False),
        ("s3://bucket/a-{tick}.csv", False),
        ("a\0-{tick}.csv", False),
    ],
)
async def test_a_shared_store_removes_what_a_fleet_wrote_for_the_tick_below_the_schedulers_folder(
    output: str, removed: bool, folder: Path
) -> None:
    own = folder / "own"
    before = {path for path in folder.rglob("*") if path.is_file()}  # noqa: ASYNC240 (a folder of a test)
    one = schedule(
        "a", every_s=60.0, again=True, keep=1, folder=str(own), crawl=CrawlDefinition(outputs=(output,))
    )
    await remove_run(Shared(), one, RUN, folders=[own], settings=Settings())  # type: ignore[arg-type]
    gone = before - {path for path in folder.rglob("*") if path.is_file()}  # noqa: ASYNC240
    name = f"a-{STAMP}.csv"
    assert gone == ({own / name, own / f"{name}.shoal", own / f"{name}.shoal.lock"} if removed else set())


async def test_in_a_folder_the_file_of_the_tick_is_removed_and_removing_it_again_does_no_harm(
    folder: Path,
) -> None:
    own = folder / "own"
    outputs = CrawlDefinition(outputs=("b-{tick}.csv", "a.csv"))
    one = schedule("a", every_s=60.0, again=True, keep=1, folder=str(own), crawl=outputs)
    async with open_store(str(folder / "data"), create=True) as store:
        for _ in range(2):
            await remove_run(store, one, RUN, folders=[], settings=Settings())
    assert not (own / f"b-{STAMP}.csv").exists()
    assert not (own / f"b-{STAMP}.csv.shoal.lock").exists()
    assert (own / "a.csv").exists()


class FakeCrawls:
    """The crawls of a store that has one, as `remove_run` uses them."""

    def __init__(self, name: str, location: str, outputs: tuple[str, ...] = ()) -> None:
        self.name, self.location, self.outputs = name, location, outputs
        self.deleted = False

    async def names(self) -> list[str]:
        return [] if self.deleted else [self.name]

    async def record(self, crawl: str) -> CrawlRecord:
        settings = {"archive": {"location": self.location}}
        return CrawlRecord(name=crawl, source=PlainSpider(crawl, ()), settings=settings)

    async def footprint(self, crawl: str) -> CrawlFootprint:
        return CrawlFootprint(crawl, 1, 0, 0, self.outputs, crawl_location(self.location, crawl))

    async def delete(self, crawl: str) -> None:
        self.deleted = True


def shared_store(crawls: FakeCrawls) -> Any:
    return SimpleNamespace(capabilities=SimpleNamespace(shared=True), crawls=crawls)


def separate(folder: Path, **options: object) -> Schedule:
    return schedule("a", every_s=60.0, again=False, keep=1, folder=str(folder), **options)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


async def test_a_run_in_a_shared_store_that_names_another_crawl_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thesis" / "chapters").mkdir(parents=True)
    (tmp_path / "thesis" / "chapters" / "one.txt").write_text("mine")
    (tmp_path / "thesis" / "thesis-20260101-00001.warc.gz").write_text("pages")
    before, crawls = tree(tmp_path), FakeCrawls("thesis", ".")
    run = ScheduledRun(tick=START, state=RunState.DONE, crawl="thesis")
    with pytest.raises(Misconfigured, match="'thesis'"):
        await remove_run(
            shared_store(crawls), separate(tmp_path), run, folders=[tmp_path], settings=Settings()
        )
    assert tree(tmp_path) == before
    assert not crawls.deleted


async def test_of_an_archive_only_segments_and_parts_are_removed_and_the_folder_if_nothing_else_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    crawl = f"a-{STAMP}"
    run = ScheduledRun(tick=START, state=RunState.DONE, crawl=crawl)
    for mine in (False, True):
        archive = tmp_path / crawl
        (archive / "attempts").mkdir(parents=True)
        (archive / f"{crawl}-20261019-00001.warc.gz").write_text("pages")
        (archive / "attempts" / f"{crawl}-20261019-00001.parquet").write_text("rows")
        (archive / ".expired").write_text("2026-10-01\n")
        if mine:
            (archive / "attempts" / "mine.txt").write_text("mine")
        crawls = FakeCrawls(crawl, ".")
        await remove_run(
            shared_store(crawls), separate(tmp_path), run, folders=[tmp_path], settings=Settings()
        )
        kept = {crawl, f"{crawl}/attempts", f"{crawl}/attempts/mine.txt"}
        assert tree(tmp_path) == (kept if mine else set())
        assert crawls.deleted


async def test_of_an_output_that_is_a_folder_only_the_files_of_its_sink_are_removed_and_drafts_with_their_link(
    tmp_path: Path,
) -> None:
    name = f"items-{STAMP}"
    for made in (
        f"{name}/part-00000.parquet",
        f"{name}/.rows-00001.jsonl",
        f"{name}/mine.txt",
        f"{name}/folder/part-00000.parquet",
        f".{name}.csv.new/{name}.csv",
        f".{name}.csv.new/{name}.csv.shoal",
        f"{name}.csv",
    ):
        (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / made).write_text("items")
    show({f"{tmp_path}/{name}.csv": draft_of(f"{tmp_path}/{name}.csv")})
    assert (tmp_path / f"{name}.new.csv").is_symlink()
    outputs = CrawlDefinition(outputs=("items-{tick}/", "items-{tick}.csv"))
    one = schedule("a", every_s=60.0, again=True, keep=1, folder=str(tmp_path), crawl=outputs)
    async with open_store(str(tmp_path / "data"), create=True) as store:
        await remove_run(store, one, RUN, folders=[], settings=Settings())
    left = {path for path in tree(tmp_path) if not path.startswith("data")}
    assert left == {name, f"{name}/mine.txt", f"{name}/folder", f"{name}/folder/part-00000.parquet"}


async def test_a_crawl_stays_until_its_files_are_removed(tmp_path: Path) -> None:
    crawl = f"a-{STAMP}"
    run = ScheduledRun(tick=START, state=RunState.DONE, crawl=crawl)
    long = tmp_path / ("y" * 250 + STAMP)  # no file has this name: looking for it is an error
    crawls = FakeCrawls(crawl, "", outputs=(str(long),))
    with pytest.raises(OSError, match="too long"):
        await remove_run(
            shared_store(crawls), separate(tmp_path), run, folders=[tmp_path], settings=Settings()
        )
    assert not crawls.deleted


class Removing:
    """A launcher that cannot remove the first run."""

    def __init__(self) -> None:
        self.removed: list[float] = []

    async def remove(self, one: Schedule, run: ScheduledRun) -> None:
        if run.tick == START:
            raise PermissionError(13, "Permission denied")
        self.removed.append(run.tick)


async def test_a_run_that_cannot_be_removed_is_logged_once_and_the_others_are_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records, launcher, one = Records(), Removing(), schedule("a", every_s=60.0, again=True, keep=1)
    runs = tuple(
        ScheduledRun(tick=START + 60 * number, state=RunState.DONE, crawl="a") for number in range(4)
    )
    records.found = {
        "s/a": msgspec.msgpack.encode(one),
        STATE + "a": msgspec.msgpack.encode(ScheduleState(cursor=START + 180, runs=runs)),
    }
    scheduler = CrawlScheduler(records, launcher, holder="s")  # type: ignore[arg-type]
    for _ in range(2):
        await scheduler.remove_old()
    assert launcher.removed == [START + 60, START + 120]
    assert [line.message for line in caplog.records].count("schedule.not_removed") == 1


@pytest.mark.parametrize("tick", [1e20, 1e300, float("nan"), float("inf")])
async def test_a_state_whose_ticks_are_no_times_is_refused(tick: float) -> None:
    run = ScheduledRun(tick=tick, state=RunState.DONE, crawl="a")
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_state(schedule("a"), msgspec.msgpack.encode(ScheduleState(cursor=START, runs=(run,))))


async def test_a_run_that_fails_at_its_start_deletes_no_earlier_generation(tmp_path: Path) -> None:
    where = str(tmp_path / "data")
    async with open_store(where, create=True) as store, store.work() as working:
        for name in ("new", "known"):
            await working.frontier.crawls.open(name)
    async with open_store(where) as store, store.work() as working:
        await working.frontier.crawls.delete("known", keep=3)
        await working.frontier.crawls.open("known")
    async with open_store(where) as store:
        for name in ("new", "known", "unknown"):
            await discard_empty(store, name)
    async with open_store(where) as store:
        assert await store.crawls.names() == ["known"]
        assert [one.number for one in await store.frontier.generations("known")] == [1, 2]
