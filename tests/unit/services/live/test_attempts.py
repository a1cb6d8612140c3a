"""What is kept of the latest attempts, and the history that it becomes."""

from collections import Counter
from typing import Any

import pytest

from shoal.archive.fetch_log import LoggedAttempt
from shoal.frontier.results import HostQueue
from shoal.services.live import attempts
from shoal.services.live.attempts import CrawlGraph, RecentAttempts, RecentHosts, burst_of
from shoal.services.live.history import COARSE, FINE, HistoryRing, Point, past_points
from shoal.services.live.lines import HostTable, host_line
from shoal.services.live.speeds import SpeedMeter, StoreTotals, is_due

NOW = 1_800_000_000.0


def row(number: int = 1, **more: Any) -> LoggedAttempt:
    usual: dict[str, Any] = {
        "started_at": int((NOW - 1) * 1e6),
        "crawl": "shop",
        "fingerprint": number,
        "url": f"http://a.example/{number}",
        "host": "a.example",
        "status": 200,
        "outcome": "done",
        "sent": 1,
        "total_ms": 100.0,
        "segment": "s",
        "wire_bytes": 10,
        "version": "v",
        "items": 2,
    }
    return LoggedAttempt(**(usual | more))


def failed(number: int = 1, **more: Any) -> LoggedAttempt:
    return row(number, **({"failure": "timeout", "segment": "", "version": "", "items": 0} | more))


def test_a_burst_sums_up_attempts_and_leaves_the_wait_for_a_turn_out() -> None:
    rows = [row(n, total_ms=float(n), queue_ms=0.0) for n in range(1, 101)]
    burst = burst_of([*rows, failed(total_ms=900.0, queue_ms=800.0), row(stage="parse", sent=0)])
    assert (burst.attempts, burst.pages, burst.parsed, burst.bytes) == (101, 100, 101, 1010)
    assert burst.failures == {"timeout": 1}
    assert burst.percentile(0.5) == pytest.approx(50, abs=1)
    assert burst.percentile(0.99) == 100.0
    assert burst_of([]).percentile(0.5) is None


def test_hosts_are_counted_over_two_windows_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_HOSTS", 2)
    hosts = RecentHosts()
    hosts.turn(NOW)
    hosts.add(failed(host="a"))
    hosts.turn(NOW + 301)
    for host in ("a", "b", "c"):
        hosts.add(row(host=host))
    assert (hosts.of("a").attempts, hosts.of("a").failures, hosts.of("b").attempts) == (2, 1, 1)
    assert hosts.of("c").attempts == 0  # beyond the limit
    assert hosts.failing(5) == ["a"]
    hosts.turn(NOW + 2_000)
    assert hosts.of("a").attempts == 0


def test_the_graph_has_links_between_hosts_and_only_the_largest_hosts() -> None:
    graph = CrawlGraph()
    graph.add(row(1, host="a"))
    for number in range(2, 6):
        graph.add(row(number, host="b", found_on=1))
    graph.add(row(9, host="c", found_on=2))
    graph.add(row(10, host="a", found_on=1))  # within one host: not drawn
    graph.add(row(11, host="d", found_on=999))  # found on a page that is not known
    found = graph.top(2)
    assert [node.host for node in found.nodes] == ["b", "a"]
    assert [(found.nodes[e.source].host, found.nodes[e.target].host, e.links) for e in found.edges] == [
        ("a", "b", 4)
    ]
    assert (found.hosts_total, found.attempts) == (4, 8)


def test_the_latest_attempts_come_first_and_can_be_chosen() -> None:
    recent = RecentAttempts()
    recent.add([row(n) for n in range(300)] + [failed(300, host="b.example", reason="slow")], NOW)
    assert [one.url[-3:] for one in recent.list(crawl="", failed=False, host="", limit=2)] == ["300", "299"]
    [only] = recent.list(crawl="shop", failed=True, host="b.example", limit=9)
    assert (only.failure, only.reason) == ("timeout", "slow")
    assert recent.list(crawl="other", failed=False, host="", limit=9) == []
    assert len(recent.latest) == attempts.MAX_LATEST


def point(at: float, pages: float, p95: float | None = None) -> Point:
    return (at, pages, 0.0, 0.0, 0.0, p95, p95, p95, 1.0, None, 0.0, 0.0)


def test_a_ring_keeps_ten_minutes_of_samples_and_a_day_of_minutes() -> None:
    ring = HistoryRing()
    for number in range(31 * 3_000):
        ring.add(point(NOW + 2 * number, 1.0, 10.0 + number % 30), Counter({"timeout": 1}))
    assert len(ring.history("live").points) == FINE
    day = ring.history("day")
    assert len(day.points) == COARSE + 1
    assert {one[1] for one in day.points} == {1.0}
    assert {one[6] for one in day.points[:-1]} == {39.0}  # the highest, not the mean
    assert day.failure_classes == {"timeout": 30 * COARSE + 30}


def test_the_past_is_binned_and_a_pause_is_not_bridged() -> None:
    before = [row(n, started_at=int((NOW - 3_000 + n) * 1e6)) for n in range(60)]
    lately = [failed(n, started_at=int((NOW - 20 + n) * 1e6)) for n in range(10)]
    ring = HistoryRing()
    for one, failures in past_points([*before, *lately, row(started_at=int((NOW - 200_000) * 1e6))], NOW):
        ring.add(one, failures)
    day, live = ring.history("day"), ring.history("live")
    assert sum((one[1] or 0.0) * 60 for one in day.points[:-1]) == pytest.approx(60, abs=31)
    assert live.failure_classes == {"timeout": 10}
    assert all(one[0] and one[0] > NOW - 601 for one in live.points)
    assert live.points[-1][1] == 0.0


def totals(**more: int) -> StoreTotals:
    names = (
        "accepted",
        "attempts",
        "pages",
        "parsed",
        "ended",
        "written",
        "waiting",
        "unparsed",
        "unwritten",
    )
    return StoreTotals(**(dict.fromkeys(names, 0) | more))


def test_speeds_are_means_and_a_stage_that_moves_nothing_is_quiet() -> None:
    meter = SpeedMeter()
    for number in range(5):
        now = totals(attempts=10 * number, parsed=3, waiting=9, unparsed=4, written=number, unwritten=2)
        speeds = meter.measure(NOW + 2 * number, now, burst_of([]), logged=False, due=True)
    assert (speeds.attempts, speeds.items) == (5.0, 0.5)
    assert dict(speeds.quiet_s) == {"parse": 8.0}
    speeds = meter.measure(NOW + 10, totals(attempts=50, parsed=4), burst_of([]), logged=False, due=True)
    assert dict(speeds.quiet_s) == {}


def test_a_crawl_whose_hosts_are_asked_rarely_is_not_stalled() -> None:
    slow = HostQueue("a", 5, 60.0, 1, paused=False)
    resting = HostQueue("b", 5, 0.5, 1, paused=False, rest_until=NOW + 5)
    assert not is_due([slow, resting], NOW)
    assert is_due([slow, HostQueue("c", 5, 0.5, 1, paused=False)], NOW)
    assert not is_due(None, NOW)


def test_hosts_are_listed_by_time_left_by_queue_and_by_failures() -> None:
    queues = [
        HostQueue("fast", 900, 0.01, 4, paused=False),
        HostQueue("slow", 50, 2.0, 1, paused=False, slow=3.0),
        HostQueue("off", 1, 1.0, 1, paused=True),
        HostQueue("slow", 50, 2.0, 1, paused=False, slow=3.0),  # of another crawl
    ]
    table = HostTable.of(queues, NOW)

    def listed(**more: str) -> list[str]:
        return [one.host for one in table.choose(**({"sort": "left", "state": "", "search": ""} | more))]

    assert listed() == ["off", "slow", "fast"]
    assert listed(sort="waiting") == ["fast", "slow", "off"]
    assert (listed(state="slowed"), listed(search="of")) == (["slow"], ["off"])
    first, total = table.failing_first(table.by_left, ["fast", "gone.example"], 3)
    assert total == len(table.by_left) + 1
    assert table.in_state(["fast", "gone.example"], "usual pace") == ["fast"]
    assert [one.host for one in first] == ["fast", "gone.example", "off"]
    line = host_line(table.by_name["slow"], attempts.RecentFigures(4, 2, 400.0, Counter(ip_blocked=2)), NOW)
    assert (line.waiting, line.left_s, line.state, line.mean_ms) == (100, 200.0, "slowed", 100.0)
    assert line.why == "asked 3.0 times less often: it turns requests away (ip_blocked)"
    assert host_line(table.by_name["off"], attempts.RecentFigures(), NOW).left_s is None
