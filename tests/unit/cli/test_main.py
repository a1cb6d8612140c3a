"""Every error becomes one line and an exit code."""

from pathlib import Path

import pytest

from shoal.cli import main
from shoal.model.errors import Misconfigured, Unavailable


class Raising:
    """A command that fails."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def main(self, *_: object, **__: object) -> int:
        raise self._error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    def fail(error: BaseException) -> int:
        monkeypatch.setattr("shoal.cli.app.command", lambda _: Raising(error))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        return main.run([])

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Misconfigured("store: bad"), 1),
        (Unavailable("store: bad"), 4),
        (ExceptionGroup("tasks", [ExceptionGroup("tasks", [Unavailable("store: bad")])]), 4),
        (Misconfigured("store:\n bad"), 1),
    ],
)
def test_an_error_raised_on_purpose_is_one_line(
    failing: object, error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(error) == code  # type: ignore[operator]
    assert capsys.readouterr() == ("", "shoal: store: bad\n")


def test_a_bug_is_reported_and_its_traceback_is_written_to_a_file(
    failing: object, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert failing(ZeroDivisionError("division by zero")) == 70  # type: ignore[operator]

    [line] = capsys.readouterr().err.splitlines()
    [file] = tmp_path.glob("shoal-bug-*.txt")
    assert (
        line
        == f"shoal: this is a bug in Shoal: ZeroDivisionError: division by zero; the traceback is in {file}"
    )
    assert "Traceback" in file.read_text()


def test_a_bug_beside_an_error_is_still_a_bug(failing: object) -> None:
    both = ExceptionGroup("tasks", [Unavailable("gone"), ZeroDivisionError()])
    assert failing(both) == 70  # type: ignore[operator]


def test_shoal_debug_prints_the_traceback(
    failing: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOAL_DEBUG", "1")
    failing(Misconfigured("store: bad"))  # type: ignore[operator]
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_an_interruption(failing: object) -> None:
    assert failing(KeyboardInterrupt()) == 3  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["crawl", "--rat", "1", "x"],
            "no such option: --rat; did you mean --rate? (see shoal crawl --help)",
        ),
        (["crwl"], "no such command 'crwl'. Did you mean 'crawl'? (see shoal --help)"),
        (
            ["crawl"],
            "nothing to crawl: name a URL, a spider (books.py, module:name), --seeds FILE or --sitemap URL",
        ),
        (["crawl", "--rate"], "option '--rate' requires an argument"),
        (["crawl", "https://a.test/", "--procz", "x"], "no such option: --procz; did you mean --procs?"),
        (["dlq", "list", "--limit", "0"], "invalid value for '--limit'"),
        (
            ["dlq", "list", "--class", "timeot"],
            "--class 'timeot': no such failure class; did you mean timeout?",
        ),
        (["status", "--config", "nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
        (
            ["crawl", "https://a.test/", "--rate", "-1"],
            "--rate: must be 0, or a number from 0.0001 to 100,000, not -1",
        ),
        (
            ["crawl", "https://a.test/", "--rate", "fast"],
            "--rate: must be 0, or a number from 0.0001 to 100,000, not 'fast'",
        ),
        (["crawl", "https://a.test/", "--follow", "("], "--follow: not a regular expression"),
        (["crawl", "https://a.test/", "--item", "x"], "--item 'x': must be NAME=CSS, for example"),
    ],
)
def test_wrong_use_is_one_line_that_helps(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"shoal: {expected}")
    assert err.count("\n") == 1
