"""How workers divide a list of exits: as a rule of values, whatever the order in which they act."""

import math

from hypothesis import given
from hypothesis import strategies as st

from shoal.model.exits.division import CLAIM_S, MARGIN_S, Division, claim, leave
from shoal.model.exits.exit import parse_exit

EXITS = [parse_exit(f"http://10.0.0.{n}:1 name=e{n} kind={'isp' if n % 3 else 'own'}") for n in range(1, 10)]
NAMES = {exit.name for exit in EXITS}
KINDS = {exit.name: exit.kind for exit in EXITS}


def settled(workers: int, *, rounds: int = 3) -> dict[str, frozenset[str]]:
    division, usable = Division(), {}
    for _ in range(rounds):
        for number in range(workers):
            division, usable[f"w{number}"] = claim(division, f"w{number}", EXITS, 1.0, busy=())
    return usable


def test_every_exit_is_used_and_each_worker_has_the_same_part_of_every_kind() -> None:
    for workers in range(1, 9):
        usable = settled(workers)
        assert sorted(name for part in usable.values() for name in part) == sorted(NAMES)
        for kind in ("isp", "own"):
            sizes = {sum(KINDS[name] == kind for name in part) for part in usable.values()}
            assert max(sizes) - min(sizes) <= 1
        assert max(map(len, usable.values())) <= math.ceil(len(NAMES) / workers) + 1


def test_with_more_workers_than_exits_some_have_none() -> None:
    sizes = sorted(map(len, settled(20).values()))
    assert sum(sizes) == len(NAMES)
    assert (sizes[0], sizes[-1]) == (0, 2), "at most one of each kind"


Act = tuple[int, float, set[str], bool]
ACTS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.floats(0, CLAIM_S),
        st.sets(st.sampled_from(sorted(NAMES))),
        st.booleans(),
    ),
    max_size=40,
)


@given(acts=ACTS)
def test_no_two_workers_may_use_an_exit_at_once_whenever_they_come_and_go(acts: list[Act]) -> None:
    now, division = 1_000.0, Division()
    usable: dict[str, tuple[float, frozenset[str]]] = {}
    for number, later, busy, leaves in acts:
        now += later
        worker = f"w{number}"
        if leaves:
            division = leave(division, worker)
            usable.pop(worker, None)
        else:
            used = busy & usable.get(worker, (0.0, frozenset()))[1]
            division, may = claim(division, worker, EXITS, now, busy=used)
            usable[worker] = division.shares[worker].until - MARGIN_S, may
        in_use = [name for until, names in usable.values() if now < until for name in names]
        assert len(in_use) == len(set(in_use))
