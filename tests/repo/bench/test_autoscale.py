"""The arithmetic of the comparison of fleets, and what it calls a fault."""

from dataclasses import replace

from bench.autoscale import FleetRun, drains, faults, reversals, worker_seconds
from tests.site.access_log import Hit

FIXED = FleetRun(100.0, (10.0, 10.0), ((0.0, 4), (100.0, 4)), (), "", is_exact=True)
SCALED = FleetRun(105.0, (12.0, 11.0), ((0.0, 1), (40.0, 4), (105.0, 1)), (1, 4, 1, 4), "", is_exact=True)
LIMITED = FleetRun(50.0, (20.0,), ((0.0, 1), (50.0, 1)), (), "1 worker: more would wait", is_exact=True)


def test_worker_seconds_are_the_area_under_the_number_of_workers() -> None:
    assert worker_seconds([(0.0, 2), (10.0, 5), (12.0, 0)]) == 30.0
    assert worker_seconds([]) == 0.0


def test_growing_in_steps_is_no_change_of_mind() -> None:
    assert reversals([1, 3, 6]) == 0
    assert reversals([1, 3, 6, 1, 4]) == 2
    assert reversals([]) == 0


def test_a_burst_lasts_from_its_index_page_to_its_last_page() -> None:
    hits = [
        Hit(5.0, 5.1, "a", 200, "/index/0"),
        Hit(6.0, 6.5, "b", 200, "/page/0/1"),
        Hit(7.0, 9.0, "b", 200, "/page/0/2"),
    ]
    assert drains(hits, 1) == (4.0,)


def test_a_fleet_that_keeps_what_was_promised_has_no_fault() -> None:
    assert faults(FIXED, SCALED, LIMITED, workers=4, bursts=2) == []


def test_each_promise_that_is_broken_is_named() -> None:
    late = replace(SCALED, took_s=120.0, workers=((0.0, 4), (120.0, 4)), sizes=(1, 4, 1, 4, 1, 4))
    many = replace(LIMITED, workers=((0.0, 2), (1.0, 2)), printed="")
    assert faults(FIXED, late, many, workers=4, bursts=2) == [
        "it used as many worker-seconds as the fixed fleet",
        "it ended more than 10 % later than the fixed fleet",
        "it changed its mind within a burst",
        "it started workers for a host that is the limit",
        "it did not say that the host is the limit",
    ]
