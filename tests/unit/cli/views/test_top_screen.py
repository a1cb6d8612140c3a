"""The screen of `shoal top`."""

from dataclasses import replace

import msgspec
import pytest

from shoal.cli.views.top_screen import TopScreen, share_lines
from shoal.frontier.results import STATES, HostQueue
from shoal.services.inspect.monitor import Overview
from shoal.services.inspect.status import CrawlStatus, FleetStatus, Stage, StoreStatus
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat

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
        crawls=(CrawlActivity("shop", "0123456789ab", 14, 100, 18.4),),
    )


def replace_roles(beat: Heartbeat, *roles: str) -> Heartbeat:
    return msgspec.structs.replace(beat, roles=roles)


def overview(*workers: Heartbeat, hosts: tuple[HostQueue, ...] = (), crawls: int = 1) -> Overview:
    named = [replace(CRAWL, name=f"shop{number or ''}") for number in range(crawls)]
    fleet = FleetStatus(workers, {crawl.name: STAGES for crawl in named})
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
        "3 failed",
        "14 in progress   25 to write",
        "machine-1-ab12",
        "working  shop",
        "50m 00s",
        "paused",
    ):
        assert expected in text


def test_a_pool_that_no_worker_serves_is_named() -> None:
    served = overview(worker())
    waiting = replace(served.status.crawls[0], unserved_pools={"browser": 12})
    unserved = replace(served, status=replace(served.status, crawls=[waiting]))

    text = "\n".join(drawn(unserved, width=120))

    assert "shop has 12 requests in the pool browser, which no running worker serves" in text
    assert "shoal worker --pools browser" in text
    assert "pool" not in "\n".join(drawn(served, width=120))


def test_versions_are_named_where_they_are_mixed() -> None:
    same = "\n".join(drawn(overview(worker(1), worker(2)), width=120))
    mixed = "\n".join(drawn(overview(worker(1), worker(2, version="0.2.0")), width=120))

    assert "shoal 0." not in same
    assert "shoal 0.1.0" in mixed
    assert "shoal 0.2.0" in mixed


def test_the_version_of_a_spider_is_named_where_workers_differ() -> None:
    new = msgspec.structs.replace(worker(2), crawls=(CrawlActivity("shop", "fedcba987654", 0, 0, 0.0),))
    text = "\n".join(drawn(overview(worker(1), new), width=120))

    assert "shop@012345" in text
    assert "shop@fedcba" in text


def test_many_crawls_get_one_line_each_ended_ones_last() -> None:
    now = overview(worker(), crawls=6)
    ended = replace(now.status.crawls[0], counts={**dict.fromkeys(STATES, 0), "done": 5})
    now = replace(now, status=replace(now.status, crawls=[ended, *now.status.crawls[1:]]))
    lines = drawn(now, width=80, height=40)

    at = next(number for number, line in enumerate(lines) if line.startswith("crawls"))
    assert lines[at].split() == [
        "crawls",
        "ended",
        "waiting",
        "in",
        "progress",
        "to",
        "write",
        "done",
        "failed",
    ]
    assert lines[at + 1].split() == ["shop1", "29%", "3,000", "14", "25", "1,234", "3"]
    assert lines[at + 6].split() == ["shop", "100%", "0", "0", "25", "5", "0"]
    assert any(line.startswith("workers") for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_columns_of_crawls_that_do_not_fit_are_left_out_as_a_whole(width: int) -> None:
    now = overview(worker(), crawls=30)
    full = {**dict.fromkeys(STATES, 1), "waiting": 3_000, "done": 1_234, "dead": 3}
    crawls = [replace(crawl, counts=full, name=f"a-long-name-{crawl.name}") for crawl in now.status.crawls]
    fleet = FleetStatus((worker(),), {crawl.name: STAGES for crawl in crawls})
    now = replace(now, status=replace(now.status, crawls=crawls, fleet=fleet))
    screen = TopScreen()
    screen.show(now)
    whole = ["".join(text for text, _ in line).rstrip() for line in screen.lines(width, 24)]

    [heading] = [line for line in whole if line.startswith("crawls")]
    row = whole[whole.index(heading) + 1]
    assert len(heading) <= width
    assert len(row) <= width
    assert {"waiting", "done", "failed"} <= set(heading.split())
    assert ("skipped" in heading) == (width >= 120)


def test_a_host_shows_why_it_is_slow_and_the_heading_counts_such_hosts() -> None:
    hosts = (
        HostQueue("resting.example", 9, 1.0, 4, False, rest_until=NOW + 90),
        HostQueue("pushing.example", 9, 4.0, 4, False, slow=4.0),
        HostQueue("asking.example", 9, 5.0, 4, False, crawl_delay=5.0),
    )
    now = replace(overview(worker(), hosts=hosts), held={"resting": 3, "slowed": 1})
    lines = drawn(now, width=100, height=30)

    for expected in ("time left  resting 3, slowed 1", "rests 1m 30s", "slowed 4.0x", "robots.txt"):
        assert any(line.endswith(expected) for line in lines), expected


@pytest.mark.parametrize(
    ("wanted", "room", "given"),
    [([3, 0, 2], 20, [3, 0, 2]), ([30, 2, 30], 20, [9, 2, 9]), ([1, 1, 1], 2, [1, 1, 0]), ([5], 0, [0])],
)
def test_lines_are_divided_evenly(wanted: list[int], room: int, given: list[int]) -> None:
    assert share_lines(wanted, room) == given


@pytest.mark.parametrize("width", [60, 80, 120])
def test_columns_are_below_their_headings_and_inside_the_window(width: int) -> None:
    hosts = (
        HostQueue("a.example", 1_234_567, 30.0, 1, False),
        HostQueue(f"{'long' * 20}.example", 7, 1, 4, True),
    )
    screen = TopScreen()
    screen.show(overview(worker(1), worker(2, silent=12.0), hosts=hosts))
    lines = ["".join(text for text, _ in line).rstrip() for line in screen.lines(width, 24)]
    for title, column in (("workers", "last seen"), ("slowest hosts", "time left")):
        at = next(number for number, line in enumerate(lines) if line.startswith(title))
        edge = lines[at].index(column) + len(column)
        assert edge <= width
        for line in lines[at + 1 : at + 3]:
            assert line[edge - 1] != " "
            assert line[edge : edge + 1] in ("", " ")


def test_a_stage_without_a_worker_is_named() -> None:
    fetching = replace_roles(worker(), "fetch", "sink")

    assert "shop waits for a worker with the role parse: shoal" in "\n".join(drawn(overview(fetching)))
    assert "with the role" not in "\n".join(drawn(overview(worker())))
    idle = "\n".join(drawn(overview()))
    assert "no worker is running" in idle
    assert "with the role" not in idle


def test_an_old_overview_is_marked_until_the_store_answers() -> None:
    screen = TopScreen()
    screen.show(overview(worker()))
    screen.record_delay(12.0)
    assert any(
        "no answer from the store for 12 s" in text for line in screen.lines(80, 24) for text, _ in line
    )
    screen.show(overview(worker()))
    assert not any("no answer" in text for line in screen.lines(80, 24) for text, _ in line)


def test_a_long_store_address_is_shortened() -> None:
    now = overview(worker())
    long = replace(now, status=replace(now.status, store=f"redis+unix:///{'folder/' * 20}valkey/socket"))
    first, *_ = drawn(long)
    assert first.startswith("redis+unix:///")
    assert "valkey/socket  1 worker  21.5 requests/s" in first


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 12)])
def test_what_does_not_fit_is_counted(width: int, height: int) -> None:
    hosts = tuple(HostQueue(f"host-{number}.example", 9, 1.0, 1, False) for number in range(50))
    lines = drawn(overview(*map(worker, range(200)), hosts=hosts), width, height)

    assert len(lines) < height
    assert any(line.startswith("and ") and line.endswith(" more workers") for line in lines)
    assert any(line.startswith("and ") and line.endswith(" more hosts") for line in lines)


def test_a_worker_without_a_recent_heartbeat_is_red() -> None:
    screen = TopScreen()
    screen.show(overview(worker(1, silent=0.5), worker(2, silent=12.0)))
    styles = {text.strip(): style for line in screen.lines(80, 24) for text, style in line}

    assert (styles["0.5 s"], styles["12 s"]) == ("dim", "red")
