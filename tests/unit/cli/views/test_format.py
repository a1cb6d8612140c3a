import pytest

from shoal.cli.views.format import by_count, duration, plural, quote_value, size, sparkline, table


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.067, "67 ms"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1m 00s"),
        (185, "3m 05s"),
        (7800, "2h 10m"),
        (86_399.9, "1d 00h"),
        (356_400, "4d 03h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (48_200_000, "48.2 MB"), (3.2e15, "3,200.0 TB")]
)
def test_a_size_is_shown_in_the_largest_unit_that_fits(number: int, text: str) -> None:
    assert size(number) == text


def test_a_noun_agrees_with_its_number() -> None:
    assert [plural(number, "page") for number in (0, 1, 2000)] == ["0 pages", "1 page", "2,000 pages"]


def test_counts_are_listed_largest_first() -> None:
    assert by_count({"dns": 1, "timeout": 3000, "connect": 1}) == "timeout 3,000, connect 1, dns 1"


def test_a_sparkline_shows_the_latest_values_scaled_to_their_largest() -> None:
    assert sparkline([9, 9, 0, 4, 8], 3) == "▁▅█"
    assert sparkline([0, 0], 5) == "▁▁"
    assert sparkline([], 5) == ""


def test_a_table_aligns_names_left_and_figures_right() -> None:
    assert list(table(["crawl", "done"], [["a", "1,000"], ["longer", "2"]])) == [
        "crawl    done",
        "a       1,000",
        "longer      2",
    ]


@pytest.mark.parametrize(
    "value", ["two\nlines", "a b", "a=b", 'quo"te', "\x1b[31mred", "\x9b31m", "bidi\u202e", ""]
)
def test_no_value_can_break_the_line_or_control_the_terminal(value: str) -> None:
    written = quote_value(value)
    assert written.startswith('"')
    assert written.endswith('"')
    assert written.isprintable()


def test_a_plain_value_is_not_quoted() -> None:
    assert quote_value("https://a.test/x?y") == "https://a.test/x?y"
    assert quote_value("ünïcode") == "ünïcode"
