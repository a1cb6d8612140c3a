"""The screens in the documentation are those that the commands draw, and fit their window."""

from pathlib import Path

import pytest
from docs.making import screens

PAGES = screens.pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_screen_is_what_is_drawn_now(path: Path) -> None:
    assert path.read_text() == PAGES[path], "run make docs"


@pytest.mark.parametrize("width", screens.WIDTHS)
def test_no_line_of_the_figures_is_cut(width: int) -> None:
    for screen in (screens.crawl_screen(), screens.top_screen()):
        lines = ["".join(text for text, _ in line).rstrip() for line in screen.lines(width, screens.HEIGHT)]
        assert len(lines) < screens.HEIGHT
        for line in lines:
            if line.startswith(("queue", "ended", "repeated", "skipped", "errors", "last error", "slowest")):
                assert len(line) <= width, line
