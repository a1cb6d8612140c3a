"""Connecting to the first of several addresses: order, delays, losers."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

import pytest

from shoal.fetch.http import race as race_module
from shoal.fetch.http.race import DEAD_FOR_S, MAX_ATTEMPTS, MAX_DEAD, DeadAddresses, order_addresses, race


class Connected:
    def __init__(self, address: str) -> None:
        self.address = address
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


Connect = Callable[[str], Coroutine[Any, Any, Connected]]


def connecting(behaviour: dict[str, float | Exception], made: list[Connected] | None = None) -> Connect:
    """Connect after that many seconds, or fail."""

    async def connect(address: str) -> Connected:
        what = behaviour[address]
        if isinstance(what, Exception):
            raise what
        await asyncio.sleep(what)
        connected = Connected(address)
        if made is not None:
            made.append(connected)
        return connected

    return connect


@pytest.mark.parametrize(
    ("addresses", "order"),
    [
        (["::1", "::2", "1.1.1.1", "2.2.2.2"], ["::1", "1.1.1.1", "::2"]),
        (["1.1.1.1", "2.2.2.2", "::1"], ["1.1.1.1", "::1", "2.2.2.2"]),
        (["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"], ["1.1.1.1", "2.2.2.2", "3.3.3.3"]),
        (["::1"], ["::1"]),
    ],
)
def test_families_alternate_and_few_addresses_are_tried(addresses: list[str], order: list[str]) -> None:
    assert order_addresses(addresses, 80, DeadAddresses()) == order
    assert len(order) <= MAX_ATTEMPTS


def test_dead_addresses_come_last_for_a_while_and_only_for_their_port() -> None:
    now = [100.0]
    dead = DeadAddresses(clock=lambda: now[0])
    dead.add(("::1", 80))
    assert order_addresses(["::1", "1.1.1.1"], 80, dead) == ["1.1.1.1", "::1"]
    assert order_addresses(["::1", "1.1.1.1"], 81, dead) == ["::1", "1.1.1.1"]
    now[0] += DEAD_FOR_S + 1
    assert order_addresses(["::1", "1.1.1.1"], 80, dead) == ["::1", "1.1.1.1"]


def test_a_bounded_number_of_dead_addresses_is_remembered() -> None:
    dead = DeadAddresses()
    for n in range(MAX_DEAD + 10):
        dead.add((f"::{n:x}", 80))
    assert ("::0", 80) not in dead
    assert (f"::{MAX_DEAD:x}", 80) in dead


async def test_an_address_that_swallows_packets_costs_one_delay() -> None:
    began = monotonic()
    made, lost = await race(["::1", "1.1.1.1"], connecting({"::1": 60.0, "1.1.1.1": 0.0}), timeout=10.0)
    assert isinstance(made, Connected)
    assert (made.address, lost) == ("1.1.1.1", ["::1"])
    assert monotonic() - began < 5


async def test_an_address_that_refuses_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_module, "ATTEMPT_DELAY_S", 60.0)
    behaviour: dict[str, float | Exception] = {"::1": ConnectionRefusedError("no"), "1.1.1.1": 0.0}
    made, lost = await race(["::1", "1.1.1.1"], connecting(behaviour), timeout=100.0)
    assert isinstance(made, Connected)
    assert lost == ["::1"]


async def test_a_slow_address_still_wins_if_it_is_the_first_to_connect() -> None:
    made, lost = await race(["::1", "1.1.1.1"], connecting({"::1": 0.4, "1.1.1.1": 60.0}), timeout=10.0)
    assert isinstance(made, Connected)
    assert (made.address, lost) == ("::1", ["1.1.1.1"])


async def test_if_none_accepts_the_last_error_is_returned_or_the_time_is_over() -> None:
    refusal = ConnectionRefusedError("no")
    made, lost = await race(["::1", "::2"], connecting({"::1": refusal, "::2": refusal}), timeout=5.0)
    assert made is refusal
    assert lost == ["::1", "::2"]
    made, lost = await race(["::1", "::2"], connecting({"::1": 60.0, "::2": refusal}), timeout=0.4)
    assert isinstance(made, TimeoutError)
    assert set(lost) == {"::1", "::2"}


async def test_two_connections_at_once_leave_one_open() -> None:
    made: list[Connected] = []
    winner, _ = await race(["::1", "::2"], connecting({"::1": 0.27, "::2": 0.02}, made), timeout=5.0)
    await asyncio.sleep(0.1)
    assert [one.aborted for one in made if one is not winner] in ([], [True])
    assert isinstance(winner, Connected)
    assert not winner.aborted


async def test_a_cancelled_race_leaves_nothing_running() -> None:
    before = asyncio.all_tasks()
    task = asyncio.create_task(race(["::1", "::2"], connecting({"::1": 60.0, "::2": 60.0}), timeout=90.0))
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
