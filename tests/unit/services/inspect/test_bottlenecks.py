"""Why nothing happens, in one line each."""

from typing import Any

import pytest

from shoal.cli.commands.inspect.status import status_lines
from shoal.frontier.results import STATES, HostQueue
from shoal.services.inspect.bottlenecks import find_bottlenecks
from shoal.services.inspect.status import CrawlStatus, FleetStatus, Stage, StoreStatus
from shoal.services.inspect.status_json import status_json
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat, OutputActivity

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
    fleet = FleetStatus(workers, stages, {"shop": [FILE]})
    return StoreStatus("redis://queue.example", None, [crawl], fleet, hosts)


def attending(doing: str, why: str = "") -> tuple[OutputActivity, ...]:
    return (OutputActivity("shop", FILE, doing, why),)


def texts(now: StoreStatus) -> list[str]:
    return [found.text for found in find_bottlenecks(now, NOW)]


def test_a_fleet_with_workers_for_every_stage_has_no_bottleneck() -> None:
    assert texts(status(worker(outputs=attending("writing")), fetch=5, parse=5, sink=5)) == []
    assert texts(status()) == []  # without workers and without work


def test_missing_workers_and_roles_are_named() -> None:
    assert texts(status(fetch=1)) == ["no worker is running: start shoal worker with the same --store"]
    [text] = texts(status(worker(roles=("fetch",)), parse=3))
    assert text == "shop waits for a worker with the role parse: shoal worker --roles parse"


def test_a_paused_refused_or_congested_crawl_is_named() -> None:
    assert texts(status(worker(), fetch=1, paused=True)) == ["shop is paused: shoal resume shop continues it"]
    refused = worker(refused={"shop": "spider.py: no module named 'slugify'"})
    assert texts(status(refused, fetch=1)) == ["anna cannot serve shop: spider.py: no module named 'slugify'"]
    [text] = texts(status(worker(), parse=10_001))
    assert text.startswith("shop fetches no more for now: 10,001 pages wait to be parsed")


@pytest.mark.parametrize(
    ("doing", "why", "expected"),
    [
        ("failing", "disk full", "anna says: disk full"),
        ("refused", "permission denied", "anna says: permission denied"),
        ("elsewhere", "box", "it belongs to the machine box, where no worker with the role sink is"),
    ],
)
def test_an_output_without_a_writer_is_named(doing: str, why: str, expected: str) -> None:
    idle = worker(outputs=attending(doing, why))
    assert texts(status(idle, sink=3)) == [f"no worker writes {FILE} of shop: {expected}"]

    # A standby worker takes over within 15 seconds; and one writer is enough.
    for other in ("writing", "waiting"):
        assert texts(status(idle, worker("bert", outputs=attending(other)), sink=3)) == []
    assert texts(status(worker(outputs=attending("standby")), sink=3)) == []


def test_held_hosts_are_named_those_with_most_requests_first() -> None:
    hosts = (
        HostQueue("usual.test", 900, 1.0, 4, False),
        HostQueue("off.test", 2, 1.0, 4, True),
        HostQueue("resting.test", 7, 1.0, 4, False, rest_until=NOW + 35),
        HostQueue("slowed.test", 1, 1.0, 4, False, slow=3.0),
    )
    assert texts(status(worker(), fetch=910, hosts=hosts)) == [
        "resting.test rests for 35 s: it answered 429 or 503, or it was paused for a while;"
        " 7 requests wait there",
        "off.test is paused: shoal host resume off.test continues it; 2 requests wait there",
        "slowed.test is asked 3.0 times less often: it turns requests away; 1 request waits there",
    ]
    many = tuple(HostQueue(f"h{number}.test", 1, 1.0, 4, True) for number in range(9))
    assert texts(status(worker(), fetch=9, hosts=many))[5:] == ["and 4 more hosts likewise"]


def test_the_status_shows_what_is_still_to_write_and_what_workers_do() -> None:
    sink = worker("sink", roles=("sink",), doing="writing", outputs=attending("writing"))
    crawls = tuple(CrawlActivity(f"c{number}", "0" * 12, 0, 0, 0.0) for number in range(4))
    fetch = worker("fetch", roles=("fetch",), doing="waiting", why="for the hosts' pace", crawls=crawls)
    lines = list(status_lines(status(sink, fetch, fetch=7, sink=3), NOW))

    assert [line.split() for line in lines[1:3]] == [
        ["crawl", "accepted", "waiting", "to", "write"],
        ["shop", "7", "7", "3"],
    ]
    assert lines[-2:] == [
        "sink    sink             0      0.0  writing",
        "fetch   fetch            0      0.0  waiting for the hosts' pace  4 crawls",
    ]
    found: Any = status_json(status(sink, fetch=7, sink=3), NOW)
    assert found["workers"][0]["outputs"][0]["doing"] == "writing"
    assert found["crawls"][0]["outputs"] == [FILE]
    assert [one["kind"] for one in found["bottlenecks"]] == ["role"]
