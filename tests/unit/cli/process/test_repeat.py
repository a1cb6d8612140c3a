"""`shoal crawl --every`: which command each run is, when it starts, and when they end."""

import sys

import pytest

from shoal.cli.process.repeat import Repetition, arguments_of_a_run, next_tick


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("crawl a.py --every 6h --rate 1", "crawl a.py --rate 1 --again"),
        ("crawl a.py --every=6h", "crawl a.py --again"),
        ("crawl --every 6h --again a.py", "crawl --again a.py"),
        ("crawl --every 6h -- --every 1h", "crawl --again -- --every 1h"),
    ],
)
def test_each_run_is_the_same_command_with_again(given: str, run: str) -> None:
    assert arguments_of_a_run(given.split()) == run.split()


@pytest.mark.parametrize(
    ("now", "tick", "skipped"),
    [(100.0, 160.0, 0), (159.0, 160.0, 0), (160.0, 220.0, 1), (225.0, 280.0, 2), (50.0, 160.0, 0)],
)
def test_ticks_that_a_long_run_covers_are_skipped(now: float, tick: float, skipped: int) -> None:
    assert next_tick(100.0, 60.0, now) == (tick, skipped)


@pytest.mark.parametrize(("code", "ends_with"), [(1, 1), (5, 5), (70, 70)])
def test_a_run_that_another_one_cannot_mend_ends_the_repetition(code: int, ends_with: int) -> None:
    said: list[str] = []
    command = [sys.executable, "-c", f"raise SystemExit({code})"]
    assert Repetition(command, 60.0, said.append).run() == ends_with
    assert said == []
