"""The picture of a whole store."""

from dataclasses import replace

import pytest

from shoal.cli.top_screen import TopScreen
from shoal.fleet.workers import CrawlAt, Heartbeat
from shoal.frontier.answers import STATES, HostQueue
from shoal.runtime.inspect import CrawlStatus, Fleet, Stage, StoreStatus
from shoal.runtime.overview import Overview

NOW = 1_800_000_000.0
COUNTS = {**dict.fromkeys(STATES, 0), "waiting": 3_000, "leased": 14, "done": 1_234, "dead": 3}
CRAWL = CrawlStatus("shop", 4_251, COUNTS, {}, {})
STAGES = {"fetch": Stage(3_000, 14), "parse": Stage(7), "sink": Stage(25)}


def worker(number: int = 1, *, silent: float = 1.0, version: str = "0.1.0") -> Heartbeat:
    return Heartbeat(
        worker=f"machine-{number}-ab12",
        host="machine",
        pid=number,
        roles=("fetch", "parse", "sink"),
        shoal=version,
        started_at=NOW - 60,
        beaten_at=NOW - silent,
        doing="working",
        crawls=(CrawlAt("shop", "0123456789ab", 14, 100, 18.4),),
    )


def overview(*workers: Heartbeat, hosts: tuple[HostQueue, ...] = (), crawls: int = 1) -> Overview:
    named = [replace(CRAWL, name=f"shop{number or ''}") for number in range(crawls)]
    fleet = Fleet(workers, {crawl.name: STAGES for crawl in named})
    return Overview(NOW, StoreStatus("redis://queue.example", None, named, fleet), 21.5, hosts)


def drawn(now: Overview, width: int = 80, height: int = 24) -> list[str]:
    screen = TopScreen()
    screen.show(now)
    return ["".join(text for text, _ in line)[:width].rstrip() for line in screen.lines(width, height)]


def test_it_shows_requests_by_state_stages_workers_and_slow_hosts() -> None:
    hosts = (HostQueue("slow.example", 100, 30.0, 1, False), HostQueue("off.example", 7, 1.0, 4, True))
    text = "\n".join(drawn(overview(worker(), hosts=hosts)))

    for expected in (
        "redis://queue.example  1 worker  21.5 requests/s",
        "29% of 4,251 known",
        "3,000 waiting",
        "3 dead",
        "3,000 fetch   7 parse   25 sink",
        "machine-1-ab12",
        "shop@012345",
        "50m 00s left",
        "paused",
    ):
        assert expected in text


def test_versions_are_named_where_they_are_mixed() -> None:
    same = "\n".join(drawn(overview(worker(1), worker(2)), width=120))
    mixed = "\n".join(drawn(overview(worker(1), worker(2, version="0.2.0")), width=120))

    assert "shoal 0." not in same
    assert "shoal 0.1.0" in mixed
    assert "shoal 0.2.0" in mixed


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 12)])
def test_what_does_not_fit_is_counted(width: int, height: int) -> None:
    hosts = tuple(HostQueue(f"host-{number}.example", 9, 1.0, 1, False) for number in range(50))
    lines = drawn(overview(*map(worker, range(200)), hosts=hosts), width, height)

    assert len(lines) < height + 4  # never much more than the window, however small it is
    assert any(line.startswith("and ") and line.endswith(" more lines"[:width]) for line in lines)


def test_a_worker_that_has_been_silent_for_long_stands_out() -> None:
    screen = TopScreen()
    screen.show(overview(worker(1, silent=0.5), worker(2, silent=12.0)))
    styles = {text.strip(): style for line in screen.lines(80, 24) for text, style in line}

    assert (styles["0.5 s"], styles["12 s"]) == ("dim", "red")
