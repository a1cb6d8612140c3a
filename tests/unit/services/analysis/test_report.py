"""The report: right figures, and no text of others can do more than be read."""

import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.unit.services.analysis.log_rows import ROWS, database, row

from shoal.model.exits.spending import Spending
from shoal.services.analysis.charts import Bar, Series, bar_chart, nice_ceiling, time_chart, time_label
from shoal.services.analysis.figures import Bin, Figures, fill_gaps, read_figures, step_for
from shoal.services.analysis.report import report_page

MADE_AT = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&\x1b[2J\u202e"


def figures_of(folder: Path, rows: list[tuple[object, ...]]) -> Figures:
    found = read_figures(database(folder, rows))
    assert found is not None
    return found


def test_figures_are_those_of_the_log(tmp_path: Path) -> None:
    found = figures_of(tmp_path, ROWS)
    totals = found.totals
    assert (totals.attempts, totals.requests, totals.pages, totals.items, totals.failures) == (4, 3, 2, 4, 1)
    assert (totals.p50_ms, totals.wire_bytes, totals.hosts, totals.workers) == (20.0, 3_000, 1, 2)
    assert found.step_s == 1
    assert [(one.pages, one.failures) for one in found.bins] == [(1, 0), (0, 1), (1, 0), (0, 0), (0, 0)]
    assert [(one.name, one.count) for one in found.failure_classes] == [("target_error", 1)]
    assert [(one.name, one.count) for one in found.left_out] == [("robots", 1)]
    assert [(one.name, one.count) for one in found.statuses] == [("200", 2), ("503", 1)]
    assert [(one.name, one.requests, one.p95_ms) for one in found.slowest_hosts] == [("a.test", 3, 20.0)]
    assert [(one.name, one.requests) for one in found.exits] == [("direct", 3)]
    assert [one.name for one in found.workers] == ["w", "p"]
    queue = found.phases[0]
    assert (queue.name, queue.p50_ms, queue.count) == ("queue", 10.0, 3)


def test_a_log_without_attempts_has_no_figures(tmp_path: Path) -> None:
    assert read_figures(database(tmp_path, [])) is None


def test_the_page_is_well_formed_and_names_everything(tmp_path: Path) -> None:
    page = report_page(figures_of(tmp_path, ROWS), made_at=MADE_AT)
    for text in (
        "Throughput",
        "Latency",
        "Failures by class",
        "Slowest hosts",
        "Exits",
        "direct",
        "a.test",
        "66.7 %",
    ):
        assert text in page
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(drawing)
    assert page.count("<svg") == 6
    assert "cost of traffic" not in page


def test_the_page_names_what_traffic_has_cost(tmp_path: Path) -> None:
    spent = Spending(kinds={"residential": 2_000_000_000}, costs={"residential": 16.4})
    page = report_page(figures_of(tmp_path, ROWS), made_at=MADE_AT, spent=spent)
    assert "<b>16.40</b><span>cost of traffic</span>" in page
    assert "<td>residential</td><td>2.0 GB</td><td>16.40</td>" in page


def test_hostile_text_is_inert_and_the_page_loads_nothing(tmp_path: Path) -> None:
    rows = [
        row(1, crawl=HOSTILE, host=HOSTILE, worker=HOSTILE, exit=HOSTILE),
        row(2, failure=HOSTILE, host=HOSTILE),
    ]
    page = report_page(figures_of(tmp_path, rows), made_at=MADE_AT)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page
    assert not re.search(
        r"""\s(?:src|href|style|on\w+)\s*=""",
        page.replace(re.findall(r"<style>.*?</style>", page, re.DOTALL)[0], ""),
    )
    assert "url(" not in page


def test_bins_are_few_and_without_gaps() -> None:
    assert [step_for(seconds) for seconds in (0, 100, 3_600, 86_400, 400 * 86_400)] == [
        1,
        1,
        60,
        900,
        604_800,
    ]
    assert 5000 * 86_400 / step_for(5000 * 86_400) <= 120
    filled = fill_gaps([Bin(10.0, 5, 1, 0, 0, 1, 1, 1), Bin(20.0, 5, 2, 0, 0, 1, 1, 1)], 5, 12.0, 24.0)
    assert [(one.at, one.seconds, one.pages) for one in filled] == [
        (10.0, 3.0, 1),
        (15.0, 5.0, 0),
        (20.0, 4.0, 2),
    ]
    assert fill_gaps([], 5, 0.0, 0.0) == []


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (0.3, 0.4), (1, 1), (3, 4), (25, 40), (59, 60), (99, 100), (101, 200)]
)
def test_axes_end_at_numbers_with_round_quarters(value: float, expected: float) -> None:
    assert nice_ceiling(value) == pytest.approx(expected)


def test_charts_of_one_point_and_of_none_are_drawn() -> None:
    one = time_chart([Series("pages", "c1", [3.0])], [MADE_AT.timestamp()], label="pages", show=str)
    assert "<circle" in one
    assert "12:00:00" in one
    assert "<polyline" not in time_chart([Series("pages", "c1", [])], [], label="pages", show=str)
    bars = bar_chart([Bar("x" * 99, 0.0)], label="bars", show=str)
    assert "…" in bars
    assert f"<title>{'x' * 99}</title>" in bars
    assert time_label(MADE_AT.timestamp(), 3 * 86_400) == "17 Nov"
