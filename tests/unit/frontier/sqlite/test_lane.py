"""A lane: best class first, and within a class in the order of acceptance."""

import heapq
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.frontier.sqlite.lane import COMPACT_AFTER_IDS, Lane


def new_lane() -> Lane:
    unused: Any = SimpleNamespace()
    return Lane(1, unused, unused, "http", unused, suspect=False)


@given(st.lists(st.one_of(st.tuples(st.integers(1, 4), st.integers(0, 10**6)), st.none()), max_size=200))
def test_a_lane_behaves_like_a_sorted_list(steps: list[tuple[int, int] | None]) -> None:
    lane, model = new_lane(), list[tuple[int, int]]()
    for step in steps:
        if step is not None and step not in model:
            lane.push(*step)
            heapq.heappush(model, step)
        elif step is None and model:
            band, id = heapq.heappop(model)
            assert lane.band == band
            assert lane.pop() == id
        assert lane.size == len(model)


def test_a_long_queue_is_served_in_order_while_it_grows() -> None:
    lane = new_lane()
    served = []
    for number in range(5 * COMPACT_AFTER_IDS):
        lane.push(5, 2 * number)
        lane.push(5, 2 * number + 1)
        served.append(lane.pop())
    while lane.size:
        served.append(lane.pop())
    assert served == list(range(10 * COMPACT_AFTER_IDS))


def test_a_returned_request_goes_before_later_ones() -> None:
    lane = new_lane()
    for id in range(5):
        lane.push(5, id)
    first, second = lane.pop(), lane.pop()
    lane.push(5, second)
    lane.push(5, first)
    lane.push(4, 99)
    assert [lane.pop() for _ in range(6)] == [99, 0, 1, 2, 3, 4]
