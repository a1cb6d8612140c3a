import io
import logging
import re
from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest
from tests.unit.cli.snapshots import snapshot

from shoal.cli.views.crawl_screen import Screen
from shoal.cli.views.display import Display, LiveScreen, LogLines, NoDisplay, choose_display
from shoal.cli.views.streams import drawable, drawing_encoding

UTF8 = {"TERM": "xterm", "LANG": "en_GB.UTF-8"}


def chosen(*, silent: bool = False, terminal: bool = True, environ: dict[str, str] = UTF8) -> type[Display]:
    return type(choose_display(silent=silent, terminal=terminal, environ=environ, lost=lambda: None))


def test_a_terminal_gets_the_live_screen() -> None:
    assert chosen() is LiveScreen


@pytest.mark.parametrize(
    "environ",
    [
        {"TERM": "dumb", "LANG": "en_GB.UTF-8"},
        {"LANG": "en_GB.UTF-8"},
        {"TERM": "unknown", "LANG": "en_GB.UTF-8"},
    ],
)
def test_a_terminal_that_cannot_draw_gets_log_lines(environ: dict[str, str]) -> None:
    assert chosen(environ=environ) is LogLines


@pytest.mark.parametrize(
    ("encoding", "environ", "expected"),
    [
        ("utf-8", {"LANG": "en_GB.UTF-8"}, "━─…█ é 猫"),
        ("utf-8", {"LANG": "C"}, "=-~# ? ?"),
        ("utf-8", {}, "=-~# ? ?"),
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "=-~# ? ?"),
        ("utf-8", {"LANG": "C", "LC_CTYPE": "en_GB.UTF-8"}, "━─…█ é 猫"),
        ("utf-8", {"LC_ALL": "de_DE.ISO-8859-1"}, "=-~# é ?"),
        ("latin-1", {"LANG": "en_GB.UTF-8"}, "=-~# é ?"),
        ("ascii", {"LANG": "en_GB.UTF-8"}, "=-~# ? ?"),
        ("no-such-encoding", {"LANG": "C"}, "=-~# ? ?"),
    ],
)
def test_every_locale_gets_characters_that_it_has_and_as_many(
    encoding: str, environ: dict[str, str], expected: str
) -> None:
    stream = SimpleNamespace(encoding=encoding)
    assert drawable("━─…█ é 猫", drawing_encoding(stream, environ)) == expected


def test_no_terminal_gets_log_lines_and_quiet_gets_nothing() -> None:
    assert chosen(terminal=False) is LogLines
    assert chosen(silent=True) is NoDisplay


def test_log_lines_come_every_few_seconds_of_the_crawl(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="shoal.progress")
    display = LogLines(lambda: None)
    for quarter in range(4 * 16):
        display.show(snapshot(elapsed=quarter / 4))
    assert [record.message for record in caplog.records] == ["crawl.progress"] * 3


def test_a_message_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    LogLines(lambda: None).message("resuming x")
    assert capsys.readouterr() == ("", "shoal: resuming x\n")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "80", "LINES": "24", "LC_ALL": "C.UTF-8"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def drawn() -> str:
    with redirect_stderr(Terminal()) as terminal, LiveScreen(lambda: None, Screen()) as live:
        live.show(snapshot())
        live.message("resuming [bold]x[/bold]")
    return terminal.getvalue()


def test_the_screen_is_below_messages_and_cleared_at_the_end() -> None:
    text = drawn()
    assert "1,234 pages" in text
    assert "shoal: resuming [bold]x[/bold]" in text
    assert text.rindex("\x1b[2K") > text.rindex("1,234 pages")


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    colours = re.compile(r"\x1b\[[0-9;]*3[1-6]m")
    assert colours.search(drawn())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours.search(drawn())


def test_a_closed_terminal_is_reported_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[str] = []
    with (
        redirect_stderr(Terminal()) as terminal,
        LiveScreen(lambda: lost.append("lost"), Screen()) as live,
    ):
        monkeypatch.setattr(terminal, "write", _fail)
        live.show(snapshot())
        live.message("not printed")
    assert set(lost) == {"lost"}


def test_a_closed_pipe_is_reported_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[str] = []
    with redirect_stderr(io.StringIO()) as pipe:
        monkeypatch.setattr(pipe, "write", _fail)
        LogLines(lambda: lost.append("lost")).message("not printed")
    assert lost == ["lost"]


def _fail(_: str) -> int:
    raise OSError(5, "Input/output error")
