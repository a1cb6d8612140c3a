"""Turns that a store gives: asked for until one is fresh."""

from collections.abc import Sequence

import pytest

from shoal.fetch.gate import MAX_WAIT_S
from shoal.fetch.shared_gate import LEEWAY_SHARE, MIN_LEEWAY_S, SharedGate

INTERVAL = 1.0


class Store:
    """Answers one wait after the other, each after a time; it is the clock as well."""

    def __init__(self, answers: Sequence[tuple[float, float]]) -> None:
        self._answers = list(answers)
        self.leeways: list[float] = []
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def ask(self, host: str, *, interval: float, leeway: float) -> float:
        assert (host, interval) == ("a", INTERVAL)
        self.leeways.append(leeway)
        wait, took = self._answers.pop(0)
        self.now += took
        return wait


@pytest.mark.parametrize(
    ("answers", "taken"),
    [
        ([(0.0, 0.001)], 0.0),
        ([(0.01, 0.0), (0.0, 0.001)], 0.0),  # waited for
        ([(0.0, LEEWAY_SHARE * INTERVAL * 1.01), (0.0, 0.001)], 0.0),  # too old when it came: another one
        ([(MAX_WAIT_S + 0.5, 0.0)], MAX_WAIT_S + 0.5),  # not waited for
    ],
)
async def test_a_turn_is_used_while_it_is_fresh(answers: list[tuple[float, float]], taken: float) -> None:
    store = Store(answers)
    turn = SharedGate(store.ask, clock=store).turn("a", interval=INTERVAL)

    assert await turn.take() == taken
    assert turn.sends == (0 if taken else 1)
    assert store.leeways == [LEEWAY_SHARE * INTERVAL] * len(answers)


async def test_a_short_interval_leaves_time_enough_for_an_answer() -> None:
    leeways = []

    async def ask(host: str, *, interval: float, leeway: float) -> float:
        leeways.append(leeway)
        return 0.0

    await SharedGate(ask).turn("a", interval=0.02).take()
    assert leeways == [MIN_LEEWAY_S]
