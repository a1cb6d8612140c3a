"""The pipeline as one picture: which stage stalls, and why."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from shoal.frontier.results import STATES, HostQueue
from shoal.model.alert import Alert, AlertKind
from shoal.model.api.live import PipelinePicture, StageFigures
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.exits.health import ExitRecord
from shoal.services.inspect.status import CrawlStatus, FleetStatus, Stage, StoreStatus
from shoal.services.live.pipeline import QUIET_S, Speeds, draw_picture, unavailable_picture
from shoal.stores.contract.heartbeat import Heartbeat, OutputActivity

NOW = 1_800_000_000.0
FILE = "/data/items.jsonl"
BUSY = Speeds(new_links=5.0, attempts=4.0, pages=4.0, bytes=1e6, parsed=3.0, items=2.0)
STILL = Speeds(new_links=0.0, attempts=0.0, pages=0.0, parsed=0.0, items=0.0)


def worker(name: str = "anna", **more: Any) -> Heartbeat:
    usual = {"roles": ("fetch", "parse", "sink"), "doing": "working"} | more
    return Heartbeat(worker=name, host="m", pid=1, shoal="0", started_at=NOW, beaten_at=NOW, **usual)


def crawl(counts: Mapping[str, int], **more: Any) -> CrawlStatus:
    whole = {**dict.fromkeys(STATES, 0), **counts}
    return CrawlStatus("shop", sum(whole.values()), whole, {}, {}, **more)


def fleet(*workers: Heartbeat, sink: int = 0, **counts: int) -> StoreStatus:
    one = crawl(counts)
    fetch = Stage(one.counts["waiting"], one.counts["leased"])
    stages = {"shop": {"fetch": fetch, "parse": Stage(one.counts["parsing"]), "sink": Stage(sink)}}
    return StoreStatus("redis://q", None, [one], FleetStatus(workers, stages, {"shop": [FILE]}))


def folder(*, owner: str | None = "process 7", **counts: int) -> StoreStatus:
    return StoreStatus("shoal", owner, [crawl(counts)])


def stage(picture: PipelinePicture, name: str) -> StageFigures:
    [found] = [one for one in picture.stages if one.name == name]
    return found


@pytest.mark.parametrize("status", [fleet(worker(), waiting=10, leased=2), folder(waiting=10, leased=2)])
def test_a_running_store_has_depth_rate_and_lag_at_each_stage(status: StoreStatus) -> None:
    picture = draw_picture(status, BUSY, NOW)
    assert (picture.state, picture.stalled) == ("running", "")
    assert [one.name for one in picture.stages] == ["frontier", "fetch", "archive", "parse", "sink"]
    frontier = stage(picture, "frontier")
    assert (frontier.depth, frontier.rate, frontier.lag_s) == (10, 5.0, 2.5)
    assert (stage(picture, "fetch").in_progress, stage(picture, "fetch").rate) == (2, 4.0)
    assert stage(picture, "archive").detail == "1.0 MB/s"
    assert picture.verdict == "running at 4.0 requests/s, 2.5 s left at this speed"


def test_a_store_that_does_not_answer_is_named_with_its_last_figures() -> None:
    before = draw_picture(fleet(worker(), waiting=10), BUSY, NOW)
    picture = unavailable_picture(before, "no answer from 127.0.0.1:6379", 12.0, NOW)
    assert (picture.state, picture.stalled) == ("unavailable", "frontier")
    assert picture.verdict == "the store has not answered for 12 s: no answer from 127.0.0.1:6379"
    assert stage(picture, "frontier").depth == 10
    assert unavailable_picture(None, "refused", 1.0, NOW).stalled == "frontier"


FAULTS: dict[str, tuple[StoreStatus, Speeds, str, str]] = {
    "no worker at all": (fleet(waiting=5), STILL, "fetch", "no worker is running"),
    "parse workers have died": (
        fleet(worker(roles=("fetch", "sink")), parsing=40, waiting=9),
        STILL,
        "parse",
        "shop waits for a worker with the role parse",
    ),
    "parse workers hang": (
        fleet(worker(), parsing=40, waiting=9),
        replace(STILL, attempts=1.0, quiet_s={"parse": QUIET_S + 12}),
        "parse",
        "no page was parsed for 32 s",
    ),
    "the sink fails": (
        fleet(
            worker(outputs=(OutputActivity("shop", FILE, "failing", f"output {FILE}: No space left"),)),
            sink=7,
        ),
        BUSY,
        "sink",
        f"no worker writes {FILE} of shop: anna says: No space left",
    ),
    "the sink blocks": (
        fleet(worker(outputs=(OutputActivity("shop", FILE, "writing"),)), sink=7),
        replace(BUSY, quiet_s={"sink": 45.0}),
        "sink",
        "no item was written for 45 s",
    ),
    "the sink is full, and fetching waits for it": (
        fleet(worker(), sink=60_000, waiting=5),
        STILL,
        "sink",
        "60,000 pages have items that wait to be written",
    ),
    "all exits rest": (
        replace(
            fleet(worker(), waiting=5),
            exits={"de-1": ExitRecord(total=9, rest_until=NOW + 30, seen_at=NOW - 1, cause="unhealthy")},
        ),
        STILL,
        "fetch",
        "all 1 exit rest",
    ),
    "a pool has no worker": (
        replace(fleet(worker(), waiting=5), crawls=[crawl({"waiting": 5}, unserved_pools={"browser": 5})]),
        STILL,
        "fetch",
        "in the pool browser, which no running worker serves",
    ),
    "the only host answers 429": (
        replace(
            folder(waiting=5),
            hosts=(HostQueue("shop.example", 5, 0.5, 4, paused=False, rest_until=NOW + 60),),
        ),
        STILL,
        "fetch",
        "shop.example rests for 1m 00s: it answered 429 or 503",
    ),
}


@pytest.mark.parametrize(("status", "speeds", "culprit", "text"), FAULTS.values(), ids=list(FAULTS))
def test_a_fault_names_its_stage_and_its_cause(
    status: StoreStatus, speeds: Speeds, culprit: str, text: str
) -> None:
    picture = draw_picture(status, speeds, NOW)
    assert (picture.state, picture.stalled) == ("stalled", culprit)
    assert picture.verdict.startswith(f"{culprit} is stalled: ")
    assert text in picture.verdict


def alert(kind: AlertKind, stage: str, about: str = "", held_at: float = NOW) -> Alert:
    return Alert(
        kind=kind, about=about, stage=stage, cause="it broke", action="repair it", since=NOW, held_at=held_at
    )


def alerted(status: StoreStatus, *alerts: Alert) -> StoreStatus:
    return replace(status, alerts=alerts, alerts_at=NOW)


ALERTED: dict[str, tuple[StoreStatus, Speeds, str, str]] = {
    "an output of a folder blocks, and so everything before it waits": (
        alerted(
            folder(waiting=90, leased=8, parsing=7), alert(AlertKind.STAGE_STALLED, "sink", "sink of w1")
        ),
        replace(STILL, quiet_s={"fetch": 50.0, "parse": 50.0}),
        "stalled",
        "sink",
    ),
    "a spider hangs": (
        alerted(
            folder(waiting=90, leased=8, parsing=7), alert(AlertKind.STAGE_STALLED, "parse", "parse of w1")
        ),
        STILL,
        "stalled",
        "parse",
    ),
    "one of many workers stands still": (
        alerted(fleet(worker(), waiting=90), alert(AlertKind.STAGE_STALLED, "fetch", "fetch of w1")),
        BUSY,
        "held",
        "",
    ),
    "no worker has the role parse, while fetching continues": (
        alerted(fleet(worker(), parsing=40), alert(AlertKind.NO_WORKER, "parse", "parse of shop")),
        BUSY,
        "stalled",
        "parse",
    ),
    "one pool has no worker": (
        alerted(fleet(worker(), waiting=5), alert(AlertKind.NO_WORKER, "fetch", "pool browser of shop")),
        BUSY,
        "held",
        "",
    ),
    "every exit is down": (
        alerted(folder(waiting=5), alert(AlertKind.EXITS_DOWN, "fetch")),
        BUSY,
        "stalled",
        "fetch",
    ),
    "every exit of one kind is down": (
        alerted(folder(waiting=5), alert(AlertKind.EXITS_DOWN, "fetch", "isp")),
        BUSY,
        "held",
        "",
    ),
    "one host refuses": (
        alerted(folder(waiting=5), alert(AlertKind.HOST_THROTTLED, "fetch", "shop.example")),
        BUSY,
        "held",
        "",
    ),
    "the store is nearly full": (
        alerted(fleet(worker(), waiting=5), alert(AlertKind.STORE_FULL, "store")),
        BUSY,
        "held",
        "",
    ),
    "a share is low": (
        alerted(folder(waiting=5), alert(AlertKind.SUCCESS_RATE, "fetch")),
        BUSY,
        "running",
        "",
    ),
    "the condition is over, and its alert calms down": (
        alerted(folder(waiting=5), alert(AlertKind.STAGE_STALLED, "sink", "sink of w1", NOW - 1)),
        BUSY,
        "running",
        "",
    ),
}


@pytest.mark.parametrize(("status", "speeds", "state", "culprit"), ALERTED.values(), ids=list(ALERTED))
def test_an_alert_marks_its_stage(status: StoreStatus, speeds: Speeds, state: str, culprit: str) -> None:
    picture = draw_picture(status, speeds, NOW)
    assert (picture.state, picture.stalled) == (state, culprit)
    texts = {cause.text for one in picture.stages for cause in one.causes if cause.level != "notice"}
    assert texts == (set() if state == "running" else {"it broke; repair it"})  # and nothing is named twice


def test_after_the_repair_nothing_is_marked() -> None:
    picture = draw_picture(fleet(worker(), waiting=5, parsing=4, sink=3), BUSY, NOW)
    assert {one.state for one in picture.stages} == {"running"}
    assert not [cause for one in picture.stages for cause in one.causes]


def test_one_slow_host_holds_the_crawl_back_and_does_not_stall_it() -> None:
    hosts = (
        HostQueue("slow.example", 5, 0.5, 4, paused=False, rest_until=NOW + 60),
        HostQueue("fast.example", 5, 0.5, 4, paused=False),
    )
    picture = draw_picture(replace(fleet(worker(), waiting=10), hosts=hosts), BUSY, NOW)
    assert (picture.state, picture.stalled, stage(picture, "fetch").state) == ("held", "", "held")
    assert picture.verdict.startswith("slow.example rests for 1m 00s")


def test_a_trap_is_a_notice_at_the_frontier() -> None:
    closed = {"shop.example/cal/*": ClosedPattern(250, "http://shop.example/cal/2031")}
    status = StoreStatus("shoal", "process 7", [crawl({"waiting": 5, "leased": 1}, closed=closed)])
    picture = draw_picture(status, BUSY, NOW)
    [cause] = stage(picture, "frontier").causes
    assert (cause.kind, cause.level, picture.state) == ("trap", "notice", "running")
    told = "shop.example/cal/*: more than 250 pages bring nothing new, such as http://shop.example/cal/2031"
    assert told in cause.text


def test_what_is_paused_or_finished_or_left_alone_is_not_stalled() -> None:
    quiet = replace(STILL, quiet_s={"fetch": 500.0})
    paused = StoreStatus("shoal", "process 7", [crawl({"waiting": 5}, paused=True)])
    assert draw_picture(paused, quiet, NOW).state == "paused"
    assert draw_picture(folder(done=9), STILL, NOW).verdict == "every crawl is finished"
    alone = draw_picture(folder(owner=None, waiting=3), quiet, NOW)
    assert (alone.state, alone.verdict) == (
        "idle",
        "not running, with 3 URLs left: run the same command to resume",
    )
    assert draw_picture(StoreStatus("shoal", None, ()), STILL, NOW).verdict.startswith("no crawl yet")
