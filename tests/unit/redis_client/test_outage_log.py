"""The log of an outage."""

import time

import pytest

from shoal.redis_client.errors import LOST, CallFailed
from shoal.redis_client.outage_log import QUIET_ATTEMPTS, OutageLog

FAILED = CallFailed(LOST, "127.0.0.1:6379")


@pytest.fixture(autouse=True)
def capture_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="shoal")


def fail(outage: OutageLog, attempts: int = QUIET_ATTEMPTS, seconds: float = 7.0) -> None:
    outage.record_failure(FAILED, since=time.monotonic() - seconds, attempts=attempts)


def test_many_waiting_calls_log_one_line(caplog: pytest.LogCaptureFixture) -> None:
    outage = OutageLog("redis://h")
    for _ in range(100):
        fail(outage)
    for _ in range(100):
        outage.record_success(since=0.0, attempts=QUIET_ATTEMPTS)

    assert caplog.messages == ["store.unavailable", "store.recovered"]
    assert [vars(record)["seconds"] for record in caplog.records] == [7, 7]


def test_a_short_interruption_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    outage = OutageLog("redis://h")
    fail(outage, attempts=QUIET_ATTEMPTS - 1, seconds=1.0)
    outage.record_success(since=time.monotonic() - 1.0, attempts=QUIET_ATTEMPTS - 1)

    assert caplog.messages == []


def test_a_server_that_does_not_answer_is_logged_after_the_first_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = OutageLog("redis://h")
    fail(outage, attempts=0, seconds=5.0)
    [record] = caplog.records
    assert (record.levelname, vars(record)["store"], vars(record)["seconds"]) == ("WARNING", "redis://h", 5)


def test_a_long_outage_is_logged_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.redis_client.outage_log.LOG_EVERY_S", 0.0)
    outage = OutageLog("redis://h")
    for _ in range(3):
        fail(outage)

    assert caplog.messages == ["store.unavailable"] * 3


def test_a_reply_of_another_server_does_not_end_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    outage = OutageLog("redis+cluster://h")
    fail(outage)
    outage.record_success(since=0.0, attempts=0)
    fail(outage)

    assert caplog.messages == ["store.unavailable"]
