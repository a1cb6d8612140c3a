"""Trouble of a host is logged when it begins and when it ends, and has a remedy."""

import logging

import pytest

from shoal.frontier.host_watch import HostWatch
from shoal.model.adaptive_delay import HostRemedy, Signal, TroubleWindows
from shoal.model.outcome import Gone, Lease, Released, Settlement
from shoal.model.request import Request


def settled(signal: Signal, host: str = "a.test") -> Settlement:
    request = Request(url=f"https://{host}/")
    return Settlement(Lease("c", 1, 1, host, request, 1, 0, 0, 0.0, 0.0, 1), Gone(404), signal=signal)


def test_a_spike_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, HostWatch.__module__)
    watch = HostWatch("c")
    for _ in range(20):
        watch.note(settled(Signal.CHALLENGED))
    assert watch.remedy("a.test") is HostRemedy.ESCALATE
    assert watch.remedy("b.test") is None
    for _ in range(200):
        watch.note(settled(Signal.NORMAL))
    assert watch.remedy("a.test") is None
    began, ended = caplog.records
    assert (began.message, began.levelname) == ("host.trouble", "WARNING")
    assert (began.host, began.kind, began.count, began.remedy) == ("a.test", "challenged", 5, "escalate")  # type: ignore[attr-defined]
    assert (ended.message, ended.kind) == ("host.recovered", "challenged")  # type: ignore[attr-defined]


def test_what_says_nothing_about_a_host_and_hosts_without_trouble_cost_nothing() -> None:
    watch = HostWatch("c")
    for _ in range(20):
        watch.note(settled(Signal.NORMAL))
    lease = settled(Signal.NORMAL).lease
    watch.note(Settlement(lease, Released(), sent=False))
    assert not watch._windows._hosts


def test_only_so_many_hosts_in_trouble_are_remembered() -> None:
    watch = HostWatch("c")
    for number in range(TroubleWindows.MAX_HOSTS + 9):
        watch.note(settled(Signal.FORBIDDEN, f"{number}.test"))
    assert len(watch._windows._hosts) == TroubleWindows.MAX_HOSTS
