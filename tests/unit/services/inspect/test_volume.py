"""What a number of pages per day needs."""

import pytest

from shoal.services.inspect.volume import Volume, VolumeClass, advise, class_of


def volume(per_day: float, **more: float) -> Volume:
    usual: dict[str, float] = {"rate": 2.0, "latency": 0.5, "page_bytes": 200_000}
    return Volume(per_day=per_day, **{**usual, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("per_day", "found"),
    [
        (9_999, VolumeClass.SMALL),
        (10_000, VolumeClass.MEDIUM),
        (100_000, VolumeClass.MEDIUM),
        (100_001, VolumeClass.LARGE),
        (1_000_000, VolumeClass.LARGE),
        (1_000_001, VolumeClass.HUGE),
    ],
)
def test_classes_have_exact_bounds(per_day: float, found: VolumeClass) -> None:
    assert class_of(per_day) is found


@pytest.mark.parametrize(
    ("per_day", "per_minute", "hosts", "workers"),
    [
        (5_000, 3.5, 1, 1),
        (100_000, 69.4, 1, 1),
        (1_000_000, 694.4, 8, 2),
        (20_000_000, 13_888.9, 145, 4),
        (100_000_000, 69_444.4, 724, 13),
    ],
)
def test_pages_per_minute_hosts_and_workers(
    per_day: float, per_minute: float, hosts: int, workers: int
) -> None:
    found = advise(volume(per_day))
    assert (round(found.per_minute, 1), found.hosts, found.workers) == (per_minute, hosts, workers)


def test_slow_pages_need_more_workers() -> None:
    assert advise(volume(20_000_000, latency=5.0)).workers > advise(volume(20_000_000)).workers


def test_without_a_pace_one_host_is_enough() -> None:
    assert advise(volume(20_000_000, rate=0.0)).hosts == 1


def test_the_costs_of_a_month() -> None:
    # A million pages of 200 kB, at 4.25 per GB: 850; 50 addresses at 2.08: 104.
    found = advise(volume(1_000_000 / 30, price_gb=4.25, price_address=2.08, addresses=50))
    assert found.traffic_cost == pytest.approx(850, rel=1e-3)
    assert found.addresses_cost == pytest.approx(104)
    assert advise(volume(1_000)).traffic_cost is None
