"""What counts as lost or doubled."""

import pytest

from shoal.services.inspect.verify import REMEDY, compare


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"a.jsonl": 10},
        {"a.jsonl": 10, "b.csv": 10},
        {"a.jsonl": 4, "b.csv": 6},  # one after the other
        {"a.jsonl": 10, "b.csv": 3},  # joined later
        {"a.jsonl": 3, "b.parquet": None},
    ],
)
def test_outputs_that_can_hold_every_item_once_are_fine(written: dict[str, int | None]) -> None:
    assert compare(10, written, running=False) == []


def test_an_output_with_more_items_than_were_committed_is_a_problem() -> None:
    assert compare(10, {"a.jsonl": 11}, running=True) == [
        f"output a.jsonl holds 11 items, but only 10 were committed; {REMEDY}"
    ]


def test_outputs_with_fewer_items_than_were_committed_are_a_problem_once_nothing_runs() -> None:
    assert compare(10, {"a.jsonl": 9}, running=False) == [
        f"10 items were committed, but a.jsonl hold 9; {REMEDY}"
    ]
    assert compare(10, {"a.jsonl": 9}, running=True) == []
