import io
import logging
from contextlib import redirect_stderr
from typing import Any

import pytest

from shoal.cli.process.log_format import LogFormatter, start_logging


def line(message: str, **fields: object) -> str:
    record = logging.makeLogRecord(
        {"msg": message, "levelname": "WARNING", "created": 1_700_000_000.9, **fields}
    )
    return LogFormatter().format(record)


def test_a_line_is_time_in_utc_level_event_and_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert (
        line("host.paused", host="a.test", ms=3)
        == "2023-11-14T22:13:20Z warning host.paused host=a.test ms=3"
    )


@pytest.fixture(autouse=True)
def logging_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    root, progress = logging.getLogger(), logging.getLogger("shoal.progress")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(progress, "level", progress.level)


def logged(**options: Any) -> list[str]:
    """Return the events that reach standard error, of one per level."""
    with redirect_stderr(io.StringIO()) as stream:
        start_logging(**options)
        logging.getLogger("shoal.fetch").debug("slot.free")
        logging.getLogger("shoal.fetch").info("page.fetched")
        logging.getLogger("shoal.fetch").warning("host.slow")
        logging.getLogger("shoal.progress").info("crawl.progress")
    return [text.split()[2] for text in stream.getvalue().splitlines()]


def test_without_flags_only_warnings_and_progress_are_logged() -> None:
    assert logged() == ["host.slow", "crawl.progress"]


def test_quiet_logs_no_progress() -> None:
    assert logged(quiet=True) == ["host.slow"]


def test_verbose_logs_events_and_twice_logs_everything() -> None:
    assert logged(verbose=1) == ["page.fetched", "host.slow", "crawl.progress"]
    assert logged(verbose=2) == ["slot.free", "page.fetched", "host.slow", "crawl.progress"]


def test_a_closed_pipe_calls_lost_and_raises_nothing() -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    lost: list[str] = []
    start_logging(lost=lambda: lost.append("lost"))

    with redirect_stderr(Closed()):
        logging.getLogger("shoal").warning("host.slow")

    assert lost == ["lost"]
