"""Why nothing happens, in one line each."""

from typing import Any

import pytest

from shoal.cli.commands.status import status_json, status_lines
from shoal.cli.views.bottlenecks import holdups
from shoal.frontier.results import STATES, HostQueue
from shoal.services.inspect.status import CrawlStatus, Fleet, Stage, StoreStatus
from shoal.stores.redis.workers import CrawlActivity, Heartbeat, OutputActivity

NOW = 1_800_000_000.0
FILE = "/data/items.jsonl"


def worker(name: str = "anna", **more: Any) -> Heartbeat:
    usual = {"roles": ("fetch", "parse", "sink"), "doing": "idle"} | more
    return Heartbeat(worker=name, host="m", pid=1, shoal="0", started_at=NOW, beaten_at=NOW, **usual)


def status(
    *workers: Heartbeat,
    fetch: int = 0,
    parse: int = 0,
    sink: int = 0,
    hosts: tuple[HostQueue, ...] = (),
    paused: bool = False,
) -> StoreStatus:
    counts = {**dict.fromkeys(STATES, 0), "waiting": fetch, "parsing": parse}
    crawl = CrawlStatus("shop", fetch + parse, counts, {}, {}, paused=paused)
    stages = {"shop": {"fetch": Stage(fetch), "parse": Stage(parse), "sink": Stage(sink)}}
    fleet = Fleet(workers, stages, {"shop": [FILE]})
    return StoreStatus("redis://queue.example", None, [crawl], fleet, hosts)


def attending(doing: str, why: str = "") -> tuple[OutputActivity, ...]:
    return (OutputActivity("shop", FILE, doing, why),)


def said(now: StoreStatus) -> list[str]:
    return [holdup.text for holdup in holdups(now, NOW)]


def test_all_is_well_where_somebody_works_at_everything() -> None:
    assert said(status(worker(outputs=attending("writing")), fetch=5, parse=5, sink=5)) == []
    assert said(status()) == []  # nobody is there, and nothing is left


def test_work_that_nobody_is_there_for() -> None:
    assert said(status(fetch=1)) == ["no worker is running: start shoal worker with the same --store"]
    [text] = said(status(worker(roles=("fetch",)), parse=3))
    assert text == "shop waits for a worker with the role parse: shoal worker --roles parse"


def test_a_crawl_that_is_paused_refused_or_crowded() -> None:
    assert said(status(worker(), fetch=1, paused=True)) == ["shop is paused: shoal resume shop lets it go on"]
    refused = worker(refused={"shop": "spider.py: no module named 'slugify'"})
    assert said(status(refused, fetch=1)) == ["anna cannot serve shop: spider.py: no module named 'slugify'"]
    [text] = said(status(worker(), parse=10_001))
    assert text.startswith("shop fetches no more for now: 10,001 pages wait to be parsed")


@pytest.mark.parametrize(
    ("doing", "why", "expected"),
    [
        ("failing", "disk full", "anna says: disk full"),
        ("refused", "permission denied", "anna says: permission denied"),
        ("elsewhere", "box", "it belongs to the machine box, where no worker with the role sink is"),
    ],
)
def test_an_output_that_nobody_writes(doing: str, why: str, expected: str) -> None:
    idle = worker(outputs=attending(doing, why))
    assert said(status(idle, sink=3)) == [f"nobody writes {FILE} of shop: {expected}"]

    # Whoever is about to take it over has 15 seconds; and one writer is enough.
    for other in ("writing", "waiting"):
        assert said(status(idle, worker("bert", outputs=attending(other)), sink=3)) == []
    assert said(status(worker(outputs=attending("standing by")), sink=3)) == []


def test_hosts_that_are_not_asked_as_usual_those_with_most_requests_first() -> None:
    hosts = (
        HostQueue("usual.test", 900, 1.0, 4, False),
        HostQueue("off.test", 2, 1.0, 4, True),
        HostQueue("resting.test", 7, 1.0, 4, False, rest_until=NOW + 35),
        HostQueue("slowed.test", 1, 1.0, 4, False, slow=3.0),
    )
    assert said(status(worker(), fetch=910, hosts=hosts)) == [
        "resting.test rests for 35 s: it answered 429 or 503, or somebody paused it for a while;"
        " 7 requests wait there",
        "off.test is paused: shoal host resume off.test lets it go on; 2 requests wait there",
        "slowed.test is asked 3.0 times less often: it turns requests away; 1 request waits there",
    ]
    many = tuple(HostQueue(f"h{number}.test", 1, 1.0, 4, True) for number in range(9))
    assert said(status(worker(), fetch=9, hosts=many))[5:] == ["and 4 more hosts likewise"]


def test_status_tells_what_is_still_to_write_and_who_does_what() -> None:
    sink = worker("sink", roles=("sink",), doing="writing", outputs=attending("writing"))
    crawls = tuple(CrawlActivity(f"c{number}", "0" * 12, 0, 0, 0.0) for number in range(4))
    fetch = worker("fetch", roles=("fetch",), doing="waiting", why="for the hosts' pace", crawls=crawls)
    lines = list(status_lines(status(sink, fetch, fetch=7, sink=3), NOW))

    assert [line.split() for line in lines[1:3]] == [
        ["crawl", "accepted", "waiting", "to", "write"],
        ["shop", "7", "7", "3"],
    ]
    assert lines[-2:] == [
        "sink    sink           0      0.0  writing",
        "fetch   fetch          0      0.0  waiting for the hosts' pace  4 crawls",
    ]
    told: Any = status_json(status(sink, fetch=7, sink=3), NOW)
    assert told["workers"][0]["outputs"][0]["doing"] == "writing"
    assert told["crawls"][0]["outputs"] == [FILE]
    assert [one["kind"] for one in told["holdups"]] == ["role"]
