"""The live screen of a running crawl."""

import io
from itertools import product

import pytest
from rich.console import Console
from tests.unit.cli.snapshots import host, snapshot

from shoal.cli.views.crawl_screen import Screen, progress_fields

MANY = [host(f"host-{number}.with-a-rather-long-name.example", failures=number) for number in range(50)]


def drawn(screen: Screen, width: int = 80, height: int = 24) -> list[str]:
    return ["".join(text for text, _ in line)[:width].rstrip() for line in screen.lines(width, height)]


def showing(**changes: object) -> Screen:
    screen = Screen()
    screen.show(snapshot(**changes))
    return screen


def test_it_shows_speed_queue_failures_and_time_left_with_its_bound() -> None:
    text = "\n".join(drawn(showing()))

    for expected in (
        "shop.example",
        "1,234 pages",
        "18.4 pages/s",
        "3,000 waiting",
        "4 to retry",
        "18 in progress",
        "3 failed",
        "5 timeout",
        "80 scope",
        "about 2m 43s left, bounded by the pace of shop.example",
        "30% of 4,359 known",
    ):
        assert expected in text


def test_slow_hosts_show_why() -> None:
    slowed, paused = host("slow.example", slow=4.2), host("off.example", paused=True)
    failing = [slowed, host("bad.example", failures=7)]
    lines = drawn(showing(slowest=[slowed, paused], failing=failing))

    [slow_line] = [line for line in lines if line.startswith("slow.example")]
    [paused_line] = [line for line in lines if line.startswith("off.example")]
    [bad_line] = [line for line in lines if line.startswith("bad.example")]
    assert slow_line.endswith("slowed 4.2x")
    assert paused_line.endswith("paused")
    assert bad_line.split()[1:] == ["3,000", "2/s", "25m", "00s", "7", "failed"]


@pytest.mark.parametrize(("width", "height"), list(product((40, 60, 80, 200), (10, 16, 24, 60))))
def test_it_fits_the_window(width: int, height: int) -> None:
    screen = showing(slowest=MANY, failing=MANY)
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)

    console.print(screen)

    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    # The figures alone need twelve lines; below that the window cuts off, but hosts take no room from them.
    assert len(lines) <= max(height - 1, 14)


def test_both_lists_of_hosts_are_there_in_a_small_terminal() -> None:
    lines = drawn(showing(slowest=MANY[:5], failing=MANY[5:]), 80, 24)
    assert any(line.startswith("slowest hosts") for line in lines)
    assert any(line.startswith("failing hosts") for line in lines)


def test_before_the_first_snapshot_it_shows_starting() -> None:
    assert drawn(Screen()) == ["starting"]


def test_unknown_time_left_is_not_guessed() -> None:
    assert "time left: unknown" in drawn(showing(eta=None, eta_reason=""))
    assert "time left: unknown, a.test is paused" in drawn(showing(eta=None, eta_reason="a.test is paused"))


def test_draining_is_shown() -> None:
    assert "stopping: finishing requests in progress" in drawn(showing(draining=True))[0]


def test_the_sparkline_has_one_point_per_second() -> None:
    screen = Screen()
    for tick in range(13):
        screen.show(snapshot(elapsed=tick / 4, rate=float(tick)))
    [line] = [line for line in drawn(screen) if "pages/s" in line]
    assert len(line.rpartition("  ")[2]) == 4


def test_a_log_line_carries_the_same_figures() -> None:
    fields = progress_fields(snapshot())
    assert (fields["pages"], fields["waiting"], fields["in_flight"], fields["failures"]) == (
        1234,
        3000,
        14,
        7,
    )
    assert (fields["eta"], fields["bounded_by"]) == ("2m 43s", "the pace of shop.example")


def test_an_unlimited_host_that_is_due_is_shown_as_such() -> None:
    [line] = [
        line
        for line in drawn(showing(slowest=[host("a.test", interval=0.0, next_turn=0.0)]))
        if "a.test" in line
    ]
    assert line.split()[-2:] == ["none", "due"]


def test_the_last_error_takes_two_lines_at_most() -> None:
    lines = drawn(showing(last_error=f"timeout: https://a.test/{'x' * 300}: first byte"), width=40)
    at = next(number for number, line in enumerate(lines) if line.startswith("last error "))
    assert lines[at].startswith("last error timeout: https://a.test/xxx")
    assert lines[at + 1].startswith(" " * 11 + "xxx")
    assert lines[at + 1].endswith("…")
    assert max(map(len, lines)) <= 40


def test_duplicates_and_retries_are_shown() -> None:
    assert "repeated   1,200 duplicates   4 retries" in drawn(showing(duplicates=1200, retries=4))


def test_zeros_make_room_in_a_narrow_window() -> None:
    counts = {"waiting": 3, "delayed": 0, "leased": 0, "done": 10, "gone": 0, "dead": 0, "filtered": 1}
    lines = drawn(showing(counts=counts), width=40)
    assert "ended      10 done   1 skipped" in lines
    assert "ended      10 done   0 gone   0 failed   1 skipped" in drawn(showing(counts=counts), width=80)
