"""Turns that a store gives: asked for until one can be used in time."""

from collections.abc import Sequence
from time import monotonic

import pytest

from shoal.fetch.gate import MAX_WAIT_S
from shoal.fetch.shared_gate import MARGIN_SHARE, MIN_MARGIN_S, SharedGate, SharedTurn
from shoal.model.pace import TurnAnswer, TurnKind, TurnRequest

INTERVAL = 1.0
GRANTED, WAIT, PAUSED = TurnKind.GRANTED, TurnKind.WAIT, TurnKind.PAUSED


class Store:
    """Answers one request after the other, each after a time; it is the clock as well."""

    def __init__(self, answers: Sequence[tuple[TurnKind, float, float]]) -> None:
        self._answers = list(answers)
        self.asked: list[TurnRequest] = []
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def ask(self, request: TurnRequest) -> TurnAnswer:
        assert (request.host, request.interval) == ("a", INTERVAL)
        self.asked.append(request)
        kind, wait, took = self._answers.pop(0)
        asked_at, self.now = self.now, self.now + took
        return TurnAnswer(kind, wait, asked_at, receipt=f"turn {len(self.asked)}")

    def turn(self) -> SharedTurn:
        return SharedGate(self.ask, clock=self).turn("a", interval=INTERVAL)


@pytest.mark.parametrize(
    ("answers", "taken"),
    [
        ([(GRANTED, 0.0, 0.001)], 0.0),
        ([(WAIT, 0.01, 0.0), (GRANTED, 0.0, 0.001)], 0.0),  # waited for
        ([(WAIT, MAX_WAIT_S + 0.5, 0.0)], MAX_WAIT_S + 0.5),  # not waited for
        ([(PAUSED, 0.0, 0.0)], 0.001),
    ],
)
async def test_a_turn_is_taken_waited_for_or_too_far_away(
    answers: list[tuple[TurnKind, float, float]], taken: float
) -> None:
    store = Store(answers)
    turn = store.turn()

    assert await turn.take() == taken
    assert turn.sends == (0 if taken else 1)
    assert {asked.leeway for asked in store.asked} == {MARGIN_SHARE * INTERVAL}
    assert {asked.ahead for asked in store.asked} == {0.0}


async def test_a_turn_that_may_leave_early_waits_for_the_whole_rest_of_its_host_and_asks_once() -> None:
    """A turn that is due within `early` is granted: if the answer is to wait, the host rests."""
    store = Store([(WAIT, 0.05, 0.0), (GRANTED, 3.0, 0.001)])
    began = monotonic()

    assert await SharedGate(store.ask, clock=store).turn("a", interval=INTERVAL, early=4.5).take() == 0.0
    assert monotonic() - began > 0.04  # loops round
    assert len(store.asked) == 2

    store = Store([(WAIT, 3.0, 0.0)])
    assert await SharedGate(store.ask, clock=store).turn("a", interval=INTERVAL, early=4.5).take() == 3.0
    assert len(store.asked) == 1


async def test_a_turn_that_came_too_late_is_returned_and_the_next_one_has_more_time() -> None:
    store = Store([(GRANTED, 0.0, 0.3), (GRANTED, 0.0, 0.3)])
    turn = store.turn()

    assert await turn.take() == 0.0
    first, second = store.asked
    assert (first.receipt, second.receipt) == ("", "turn 1")
    assert first.leeway < 0.3 < second.leeway
    assert second.ahead >= 0.3  # the next turns are granted while requests for them are on the way
    assert turn.sends == 1
    turn.sent()


async def test_a_turn_ahead_whose_answer_took_too_long_is_not_used_early() -> None:
    """The store may have answered just now: then the slot is 0.3 s away, and later than may be sent."""
    store = Store([(GRANTED, 0.3, 0.2), (GRANTED, 0.0, 0.001)])
    turn = store.turn()

    assert await turn.take() == 0.0
    assert [asked.receipt for asked in store.asked] == ["", "turn 1"]
    assert turn.sends == 1


async def test_a_short_interval_leaves_time_enough_for_an_answer() -> None:
    leeways = []

    async def ask(request: TurnRequest) -> TurnAnswer:
        leeways.append(request.leeway)
        return TurnAnswer(GRANTED, 0.0, monotonic())

    await SharedGate(ask).turn("a", interval=0.02).take()
    assert leeways == [MIN_MARGIN_S]


async def test_requests_of_one_process_are_an_interval_apart_even_if_the_store_grants_them_together() -> None:
    async def ask(request: TurnRequest) -> TurnAnswer:
        return TurnAnswer(GRANTED, 0.0, monotonic())

    gate = SharedGate(ask)
    sent = []
    for _ in range(3):
        turn = gate.turn("a", interval=0.05)
        assert await turn.take() == 0.0
        turn.sent()
        sent.append(monotonic())
    assert sent[1] - sent[0] >= 0.05
    assert sent[2] - sent[1] >= 0.05
