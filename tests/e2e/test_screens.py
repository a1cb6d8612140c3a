"""The screens on a terminal: `q`, and locales without their characters."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.e2e.command import HASTY, QUICK, shoal
from tests.e2e.terminal import on_terminal

SLOW = ("--allow-private", "--rate", "2")
LOCALES: list[Mapping[str, str]] = [
    {"LANG": "C.UTF-8"},
    {"LANG": "C", "LC_ALL": "C", "NO_COLOR": "1"},
    {"LC_ALL": "en_US.ISO-8859-1", "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
]


@pytest.mark.parametrize("locale", LOCALES)
def test_q_quits_top_in_any_locale(shop: str, tmp_path: Path, locale: Mapping[str, str]) -> None:
    assert shoal("crawl", shop, *QUICK, "--quiet", cwd=tmp_path, env=HASTY).code == 0
    with on_terminal("top", cwd=tmp_path, env=locale) as terminal:
        terminal.wait_for("% of ")
        terminal.press("q")
        assert terminal.end() == 0, terminal.text
    assert "q quits" in terminal.text
    assert terminal.text.isascii() == (locale.get("LANG") != "C.UTF-8")


def test_q_finishes_the_requests_in_progress_of_a_crawl_as_ctrl_c_does(shop: str, tmp_path: Path) -> None:
    with on_terminal("crawl", shop, *SLOW, cwd=tmp_path, env={"LANG": "C"}, columns=60) as terminal:
        terminal.wait_for("in progress")
        terminal.press("q")
        assert terminal.end() == 3, terminal.text
    assert "finishing requests in progress" in terminal.text
    assert "Interrupted" in terminal.text
    assert terminal.text.isascii()
