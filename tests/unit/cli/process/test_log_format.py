import io
import logging
from contextlib import redirect_stderr
from typing import Any

import pytest

from shoal.cli.process.log_format import LogFormatter, start_logging
from shoal.model.errors import Misconfigured


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
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    for name in ("", "shoal.progress", "shoal.requests", "shoal.spider"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.getLogger(name).level)


def logged(**options: Any) -> list[str]:
    """Return the events that reach standard error, of one per level."""
    with redirect_stderr(io.StringIO()) as stream:
        start_logging(**options)
        logging.getLogger("shoal.fetch").debug("slot.free")
        logging.getLogger("shoal.fetch").info("page.fetched")
        logging.getLogger("shoal.fetch").warning("host.slow")
        logging.getLogger("shoal.progress").info("crawl.progress")
        logging.getLogger("shoal.requests").info("request.done")
        logging.getLogger("shoal.requests").debug("item.found")
        logging.getLogger("shoal.spider").info("spider.output")
    return [text.split()[2] for text in stream.getvalue().splitlines()]


def test_without_flags_only_warnings_and_progress_are_logged() -> None:
    assert logged() == ["host.slow", "crawl.progress", "spider.output"]


def test_quiet_logs_no_progress() -> None:
    assert logged(quiet=True) == ["host.slow"]


def test_verbose_logs_events_and_twice_logs_everything() -> None:
    requests = ["request.done", "spider.output"]
    assert logged(verbose=1) == ["page.fetched", "host.slow", "crawl.progress", *requests]
    detailed = ["request.done", "item.found", "spider.output"]
    assert logged(verbose=2) == ["slot.free", "page.fetched", "host.slow", "crawl.progress", *detailed]


def test_a_worker_logs_events_without_a_line_per_request() -> None:
    assert logged(events=True) == ["page.fetched", "host.slow", "crawl.progress", "spider.output"]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(Misconfigured, match="--log-format 'xml': must be one of text, json"):
        start_logging(log_format="xml")


def test_a_closed_pipe_calls_lost_and_raises_nothing() -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    lost: list[str] = []
    start_logging(lost=lambda: lost.append("lost"))

    with redirect_stderr(Closed()):
        logging.getLogger("shoal").warning("host.slow")

    assert lost == ["lost"]
