"""Capacity as arithmetic."""

import math

import pytest

from shoal.services.inspect.capacity import (
    HostLoad,
    Load,
    addresses_cost,
    concurrency_needed,
    drain_time,
    forecast,
    host_ceiling,
    host_rate,
    slot_ceiling,
    traffic_cost,
)


@pytest.mark.parametrize(
    ("rate", "latency", "needed"),
    [(100.0, 0.5, 50), (1.0, 0.1, 1), (3.0, 0.5, 2), (0.0, 1.0, 1), (10, 0.1, 1)],
)
def test_littles_law_gives_the_requests_that_have_to_be_out(rate: float, latency: float, needed: int) -> None:
    assert concurrency_needed(rate, latency) == needed


def test_slots_can_do_what_littles_law_leaves_them() -> None:
    assert slot_ceiling(64, 0.5) == 128.0
    assert math.isinf(slot_ceiling(64, 0.0))


def test_a_host_is_asked_as_its_pace_allows_or_as_it_answers() -> None:
    assert host_rate(0.5, 4, 0.1) == 2.0
    assert host_rate(0.5, 1, 4.0) == 0.25
    assert host_rate(0.0, 4, 0.5) == 8.0


@pytest.mark.parametrize(
    ("queued", "capacity", "inflow", "seconds"),
    [
        (1000, 10.0, 0.0, 100.0),
        (1000, 10.0, 5.0, 200.0),
        (1000, 10.0, 10.0, math.inf),
        (1000, 10.0, 11.0, math.inf),
        (0, 0.0, 9.0, 0.0),
        (7, 0.0, 0.0, math.inf),
        (7, math.inf, 0.0, 0.0),
    ],
)
def test_a_queue_drains_by_what_goes_out_less_what_comes_in(
    queued: int, capacity: float, inflow: float, seconds: float
) -> None:
    assert drain_time(queued, capacity, inflow) == seconds


def test_hosts_allow_the_sum_of_their_paces_and_no_slot_gets_past_it() -> None:
    hosts = [HostLoad("a", 100, 2.0), HostLoad("b", 100, 2.0), HostLoad("idle", 0, 50.0)]
    assert host_ceiling([2.0, 2.0]) == 4.0
    few, many = (forecast(Load(hosts, latency=0.5, concurrency=slots)) for slots in (2, 2000))

    assert (few.capacity, many.capacity) == (4.0, 4.0)
    assert many.bound_by_hosts
    assert many.drain == 50.0
    assert not many.bound_by_one_host
    slow = forecast(Load(hosts, latency=0.5, concurrency=1))
    assert (slow.capacity, slow.bound_by_hosts) == (2.0, False)


def test_one_host_can_take_longer_than_all_of_them_together() -> None:
    found = forecast(Load([HostLoad("a", 900, 1.0), HostLoad("b", 100, 1.0)], 0.1, 64))
    assert (found.drain, found.longest_s) == (500.0, 900.0)
    assert found.longest is not None
    assert found.longest.host == "a"
    assert found.bound_by_one_host


def test_nothing_to_do_takes_no_time() -> None:
    found = forecast(Load([], 0.5, 64))
    assert (found.queued, found.drain, found.longest) == (0, 0.0, None)


def test_traffic_and_addresses_have_a_price() -> None:
    assert traffic_cost(1_000_000, 60_000.0, 0.8) == pytest.approx(48.0)
    assert addresses_cost(10, 2.5, seconds=3600.0) == 25.0
    assert addresses_cost(10, 2.5, seconds=31 * 86_400.0) == 50.0
