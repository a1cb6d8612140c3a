"""The seen-set behaves like a set."""

import random
from array import array

from hypothesis import given
from hypothesis import strategies as st

from shoal.frontier.sqlite.seen import SeenSet

LARGEST = 2**63 - 1
fps = st.one_of(st.integers(0, LARGEST), st.integers(0, 50), st.integers(LARGEST - 50, LARGEST))


@given(st.lists(fps, max_size=300))
def test_it_behaves_like_a_set(numbers: list[int]) -> None:
    seen, model = SeenSet(), set[int]()
    for number in numbers:
        assert seen.add(number) == (number not in model)
        model.add(number)
        assert number in seen
        assert len(seen) == len(model)
    assert list(seen) == sorted(model)
    assert (LARGEST // 3 in seen) == (LARGEST // 3 in model)


@given(st.lists(st.lists(fps, max_size=40), max_size=8))
def test_loading_equals_adding(batches: list[list[int]]) -> None:
    loaded = SeenSet.of((array("q", batch) for batch in batches), sum(map(len, batches)))
    added = SeenSet()
    for batch in batches:
        for number in batch:
            added.add(number)
    assert list(loaded) == list(added)
    assert len(loaded) == len(added)


def test_it_stays_exact_while_it_grows() -> None:
    rng = random.Random(7)
    numbers = [rng.getrandbits(63) for _ in range(20_000)]
    seen = SeenSet.of([array("q", numbers[:5000])], 5000)
    assert all(seen.add(number) for number in numbers[5000:])
    assert not any(seen.add(number) for number in numbers)
    assert list(seen) == sorted(numbers)
    assert not any(rng.getrandbits(63) in seen for _ in range(1000))
