"""Rows are written in a thread; a log that cannot be written costs rows and not the crawl."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from tests.unit.engine.leased import lease

from shoal.archive.fetch_log import Row
from shoal.engine.fetch_log import recorder
from shoal.engine.fetch_log.recorder import FetchLog
from shoal.model.errors import Unavailable
from shoal.model.outcome import Gone, Released, Settlement

T = TypeVar("T")


class Writer:
    grows = True

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.broken = False
        self.finished = False

    def write(self, rows: Sequence[Row]) -> None:
        if self.broken:
            raise Unavailable("disk full")
        self.rows += rows

    def finish(self) -> None:
        self.finished = True


async def at_once(call: Callable[[], T]) -> T:
    return call()


def logging_to(writer: Writer) -> FetchLog:
    return FetchLog(writer, at_once, worker="w", version="v")


def settle(log: FetchLog, *numbers: int) -> None:
    for number in numbers:
        log.settled(Settlement(lease(number), Gone(404)), None)


async def test_rows_are_written_in_order_and_the_last_part_is_completed() -> None:
    writer = Writer()
    log = logging_to(writer)
    settle(log, 1, 2)
    log.settled(Settlement(lease(3), Released()), None)
    await log.flush()
    settle(log, 4)
    await log.close()
    assert [row[3] for row in writer.rows] == [1, 2, 4]
    assert writer.finished


async def test_an_outage_is_logged_once_and_rows_wait_for_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    writer = Writer()
    log = logging_to(writer)
    writer.broken = True
    for number in (1, 2, 3):
        settle(log, number)
        await log.flush()
    writer.broken = False
    await log.flush()
    assert [row[3] for row in writer.rows] == [1, 2, 3]
    assert [record.message for record in caplog.records] == ["fetch_log.unavailable", "fetch_log.recovered"]


async def test_one_failed_write_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    writer = Writer()
    log = logging_to(writer)
    writer.broken = True
    settle(log, 1)
    await log.flush()
    writer.broken = False
    await log.flush()
    assert [row[3] for row in writer.rows] == [1]
    assert caplog.records == []


@pytest.mark.parametrize(("failed", "level"), [(False, logging.WARNING), (True, logging.INFO)])
async def test_rows_that_are_lost_at_the_end_are_a_warning_unless_an_error_has_ended_the_crawl(
    failed: bool, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    writer = Writer()
    log = logging_to(writer)
    writer.broken = True
    settle(log, 1)
    await log.close(failed=failed)
    assert [(record.message, record.levelno) for record in caplog.records] == [
        ("fetch_log.unavailable", level)
    ]


async def test_the_oldest_rows_are_dropped_and_counted_when_too_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "MAX_WAITING_ROWS", 3)
    writer = Writer()
    log = logging_to(writer)
    writer.broken = True
    settle(log, 1, 2, 3, 4, 5)
    await log.flush()
    writer.broken = False
    await log.flush()
    assert [row[3] for row in writer.rows] == [3, 4, 5]
    assert log.dropped == 2
