"""What is logged of a store that does not answer."""

import time

import pytest

from shoal.redis_client.errors import LOST, CallFailed
from shoal.redis_client.outage_log import PATIENT_REPEATS, OutageLog

FAILED = CallFailed(LOST, "127.0.0.1:6379")


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="shoal")


def fail(silence: OutageLog, attempts: int = PATIENT_REPEATS) -> None:
    silence.goes_on(FAILED, since=time.monotonic() - 7.0, attempts=attempts)


def test_many_calls_that_wait_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    silence = OutageLog("redis://h")
    for _ in range(100):
        fail(silence)
    for _ in range(100):
        silence.is_over(attempts=PATIENT_REPEATS)

    assert caplog.messages == ["store.waits", "store.answers"]
    assert [vars(record)["seconds"] for record in caplog.records] == [7, 7]


def test_a_short_interruption_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    silence = OutageLog("redis://h")
    fail(silence, attempts=PATIENT_REPEATS - 1)
    silence.is_over(attempts=PATIENT_REPEATS - 1)

    assert caplog.messages == []


def test_a_long_silence_is_told_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.redis_client.outage_log.TELL_EVERY", 0.0)
    silence = OutageLog("redis://h")
    for _ in range(3):
        fail(silence)

    assert caplog.messages == ["store.waits"] * 3


def test_an_answer_of_another_server_does_not_end_a_silence(caplog: pytest.LogCaptureFixture) -> None:
    silence = OutageLog("redis+cluster://h")
    fail(silence)
    silence.is_over(attempts=0)
    fail(silence)

    assert caplog.messages == ["store.waits"]
