"""Turns that queue up while calls to their shard are running."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from shoal.frontier.redis.rate_tickets import RateTickets
from shoal.model.pace import TurnKind, TurnRequest
from shoal.redis_client import RedisClient, Script, ScriptArgument


class Store:
    """A shard that answers each call when the test says so."""

    def __init__(self) -> None:
        self.calls: list[asyncio.Event] = []

    def tag_of(self, host: str) -> str:
        return "{0}"

    async def run(self, script: Script, tag: str, arguments: Sequence[ScriptArgument]) -> list[bytes]:
        self.calls.append(answered := asyncio.Event())
        await answered.wait()
        return [b"granted", b"0", b"1"] * ((len(arguments) - 2) // 7)


async def until_idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_turn_sleeps_while_an_earlier_call_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    store, now, pauses = Store(), 0.0, 0
    tickets = RateTickets(cast(RedisClient, store), cast(Script, None), "taker", clock=lambda: now)
    pause = tickets._pause

    def counted(calls: Any) -> float:
        nonlocal pauses
        pauses += 1
        assert pauses < 100, "a turn asks without waiting"
        return pause(calls)

    monkeypatch.setattr(tickets, "_pause", counted)

    async def turn(host: str) -> TurnKind:
        return (await tickets.take(TurnRequest(host, 1.0, 0.05, 0.05), 1)).kind

    async with asyncio.TaskGroup() as group:
        slow = group.create_task(turn("slow.test"))
        await until_idle()
        now = 1.0
        quick = group.create_task(turn("quick.test"))
        await until_idle()
        assert len(store.calls) == 2
        store.calls[1].set()  # the latest call has ended, the one before it has not
        await quick
        late = group.create_task(turn("late.test"))
        await until_idle()
        assert not late.done()
        store.calls[0].set()
        await until_idle()
        store.calls[2].set()
    assert {slow.result(), quick.result(), late.result()} == {TurnKind.GRANTED}
