"""Counting what comes often: bounded, never too high, and not much too low."""

import random
from collections import Counter

from shoal.engine.traps.heavy_hitters import HeavyHitters


def test_a_name_that_comes_often_is_counted_among_any_number_that_do_not() -> None:
    rng = random.Random(3)
    frequent, exact = HeavyHitters(100), Counter[str]()
    for n in range(50_000):
        name = "often" if rng.random() < 0.1 else f"once {n}"
        exact[name] += 4
        count = frequent.add(name, 4)
        assert count <= exact[name]
        assert exact[name] - count <= 4 * (n + 1) / 100  # of all that was added
        assert len(frequent) <= 100


def test_cleared_it_starts_over() -> None:
    frequent = HeavyHitters(2)
    frequent.add("a", 1)
    frequent.clear()
    assert frequent.add("a", 1) == 1
