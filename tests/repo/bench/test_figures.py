"""Ratios and verdicts of the benchmark, on runs made by hand."""

from dataclasses import replace

import pytest
from bench.figures import Figure, figures, ratios
from bench.rounds import Result

MINIMAL = Result(
    crawler="minimal",
    is_ours=False,
    all_cores=False,
    pages=1000,
    fetches=1000,
    items=1000,
    complete=True,
    wall_s=1.0,
    cpu_s=1.0,
    redis_cpu_s=0.0,
    peak_bytes=50_000_000,
    exit_code=0,
)
SHOAL = replace(MINIMAL, crawler="shoal", is_ours=True, wall_s=2.0, cpu_s=2.0, peak_bytes=100_000_000)
FLEET = replace(SHOAL, crawler="shoal, Redis", wall_s=2.5, redis_cpu_s=0.1)
SCRAPY = replace(MINIMAL, crawler="scrapy", wall_s=50.0, cpu_s=50.0)
SCRAPY_REDIS = replace(MINIMAL, crawler="scrapy-redis", wall_s=100.0)
SLOWER = replace(MINIMAL, wall_s=3.0, cpu_s=3.0)


def test_a_run_is_compared_with_the_reference_runs_beside_it() -> None:
    results = [MINIMAL, SHOAL, SLOWER, SHOAL, SLOWER]

    assert ratios(results, "shoal", lambda result: result.cpu_s) == pytest.approx([2 / 2, 2 / 3])


def test_the_figures_are_those_of_the_goals() -> None:
    found = {figure.name: figure for figure in figures([MINIMAL, SHOAL, MINIMAL, SCRAPY, MINIMAL], [])}

    assert found["CPU per page / minimal"].value == pytest.approx(2.0)
    assert found["pages/s / Scrapy, following links"].value == pytest.approx(25)
    assert found["peak memory, all processes, MB"].value == pytest.approx(100)
    assert found["runs that were not exactly once"].verdict == "goal"


def test_a_crawl_on_redis_is_compared_with_one_in_a_folder_and_with_scrapy_redis() -> None:
    results = [MINIMAL, SHOAL, MINIMAL, FLEET, SLOWER, SCRAPY_REDIS, MINIMAL]
    found = {figure.name: figure for figure in figures(results, [])}

    # Beside the second one the reference was slower, and so the machine.
    assert found["on Redis: pages/s / Shoal in a folder"].value == pytest.approx(
        (1 / 2.5) / (2 / 3) / (1 / 2)
    )
    assert found["on Redis: pages/s / scrapy-redis"].value == pytest.approx((1 / 2.5) / (1 / 100))


@pytest.mark.parametrize(
    "flaw",
    [{"fetches": 1001}, {"items": 999}, {"complete": False}, {"exit_code": 1}],
    ids=["fetched twice", "item missing", "not everything", "failed"],
)
def test_a_run_with_a_flaw_counts_as_not_exactly_once(flaw: dict[str, int]) -> None:
    found = {figure.name: figure for figure in figures([MINIMAL, replace(SHOAL, **flaw), MINIMAL], [])}  # type: ignore[arg-type]

    assert found["runs that were not exactly once"].verdict == "MISSED"


@pytest.mark.parametrize(("value", "verdict"), [(1.5, "goal"), (2.5, "floor"), (3.5, "MISSED")])
def test_less_cpu_is_better(value: float, verdict: str) -> None:
    assert Figure("CPU", value, 3.0, 1.8, more_is_better=False).verdict == verdict


@pytest.mark.parametrize(("value", "verdict"), [(25, "goal"), (15, "floor"), (5, "MISSED")])
def test_more_pages_are_better(value: float, verdict: str) -> None:
    assert Figure("pages", value, 12, 20, more_is_better=True).verdict == verdict
