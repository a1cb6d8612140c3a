"""What a snapshot says about how long a crawl will take."""

import pytest

from shoal.engine.counters import Counters, estimate, limited, slowest
from shoal.engine.snapshot import HostSnapshot


def host(name: str, *, waiting: int, interval: float = 0.5, paused: bool = False) -> HostSnapshot:
    return HostSnapshot(name, waiting, 0, interval, 1.0, 0.0, 0, paused)


def test_the_slowest_host_bounds_the_estimate_however_fast_we_are() -> None:
    eta, reason = estimate(
        1_100, 500.0, [host("big.example", waiting=1_001), host("small.example", waiting=99)], busy=True
    )

    assert eta == 500.0
    assert reason == "the pace of big.example"


def test_a_host_asked_at_nearly_its_pace_is_what_holds_us_up() -> None:
    eta, reason = estimate(101, 1.9, [host("a.example", waiting=101)], busy=True)

    assert eta == pytest.approx(101 / 1.9)
    assert reason == "the pace of a.example"


def test_without_politeness_our_own_speed_bounds_the_estimate() -> None:
    unlimited = [host("a.example", waiting=1_000, interval=0.0)]
    assert estimate(1_000, 50.0, unlimited, busy=True) == (20.0, "this machine")
    assert estimate(1_000, 50.0, unlimited, busy=False) == (
        20.0,
        "",
    )  # slots are free: nothing is bounded here


def test_nothing_can_be_said_before_the_first_pages() -> None:
    assert estimate(10, 0.0, [], busy=False) == (None, "")


def test_a_paused_host_makes_the_end_unknown_and_is_named() -> None:
    assert estimate(10, 5.0, [host("a.example", waiting=5, paused=True)], busy=False) == (
        None,
        "a.example is paused",
    )


def test_the_slowest_hosts_are_those_that_need_longest_not_those_with_most_urls() -> None:
    views = [host("fast", waiting=1_000, interval=0.01), host("slow", waiting=100, interval=10.0)]

    assert [view.host for view in slowest(views)] == ["slow", "fast"]


def test_the_rate_looks_back_a_few_seconds_only() -> None:
    now = 0.0
    tally = Counters(clock=lambda: now)
    for second in range(1, 20):
        now = float(second)
        tally.pages += 100 if second < 10 else 10
        rate = tally.rate()

    assert rate == 10.0


@pytest.mark.parametrize(
    ("eta", "pages_left", "rate", "expected"),
    [
        ((100.0, "this machine"), 50, 5.0, (10.0, "--max-pages")),  # the limit comes first
        ((100.0, "this machine"), 5_000, 5.0, (100.0, "this machine")),  # fewer are known
        ((None, "a.test is paused"), 50, 5.0, (10.0, "--max-pages")),
        ((None, ""), 50, 0.0, (None, "")),  # no page yet: unknown
        ((100.0, "the pace of a.test"), 0, 5.0, (0.0, "--max-pages")),
    ],
)
def test_the_time_left_ends_at_max_pages(
    eta: tuple[float | None, str], pages_left: int, rate: float, expected: tuple[float | None, str]
) -> None:
    assert limited(*eta, pages_left=pages_left, rate=rate) == expected
