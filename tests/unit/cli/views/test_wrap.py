"""Long lines on a terminal: no word is cut, nothing is left out, commands can be copied."""

import pytest

from shoal.cli.views.wrap import wrap

LINES = (
    "Next: shoal serve --store shoal-demo   (the dashboard of this crawl, in a browser, until you press Ctrl-C)",
    "shoal: http://127.0.0.1:8000/: refused: address 127.0.0.1 is not allowed; --allow-private allows it",
    "OK    parsing            the sandbox is complete: spiders read only what they need, and change nothing",
    "  archived  127.0.0.1%3A8000-20261118-00001.warc.gz at 311, 749 bytes for 1.1 kB of body, as it came",
    "2026-11-18 04:01:12Z  skipped        -   0  http://127.0.0.1:8000/cart/add?sku=SH-1001  robots: disallowed",
    "x" * 200,
    "one " + "y" * 150 + " two",
    "",
)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("line", LINES)
def test_every_word_is_there_once_and_whole(line: str, width: int) -> None:
    parts = wrap(line, width)
    assert " ".join(parts).split() == line.split()
    for part in parts:
        word_is_too_long = len(part) > 0 and len(part.split()[-1]) > width // 2
        assert len(part) <= width or word_is_too_long or part.startswith("Next: shoal"), part


def test_text_is_continued_below_its_own_start() -> None:
    first, second = wrap(LINES[2], 80)
    assert first.startswith("OK    parsing            the sandbox")
    assert (len(second) - len(second.lstrip())) == len("OK    parsing            ")


def test_a_command_stays_whole_and_its_explanation_follows() -> None:
    assert wrap(LINES[0], 80) == [
        "Next: shoal serve --store shoal-demo",
        "      (the dashboard of this crawl, in a browser, until you press Ctrl-C)",
    ]


@pytest.mark.parametrize("width", [0, 20, 500])
def test_without_a_terminal_and_with_room_a_line_stays_one(width: int) -> None:
    assert all(wrap(line, width) == [line] for line in LINES)


def test_text_of_others_cannot_control_the_terminal() -> None:
    assert all(part.isprintable() for part in wrap("a\x1b[2J\nb " * 30, 60))
