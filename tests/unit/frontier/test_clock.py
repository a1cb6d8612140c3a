"""The frontier's clock."""

from shoal.frontier.clock import Clock


def test_the_clock_stops_on_jitter_and_reports_when_it_was_set_back() -> None:
    readings = iter([100.0, 105.0, 104.5, 105.5, 50.0, 49.5, 51.0])
    reported: list[tuple[float, float]] = []
    clock = Clock(lambda: next(readings), lambda now, by: reported.append((now, by)))

    assert [clock.now() for _ in range(6)] == [105.0, 105.0, 105.5, 50.0, 50.0, 51.0]
    assert reported == [(50.0, 55.5)]
