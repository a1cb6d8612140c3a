"""What is a mutant, on made-up code."""

import pytest
from tests.mutation.__main__ import draw
from tests.mutation.lua_mutants import every_place as lua_places
from tests.mutation.mutant import Mutant
from tests.mutation.python_mutants import every_place as python_places


def changed(source: str, mutants: list[Mutant]) -> set[str]:
    return {mutant.apply(source.encode()).decode().strip() for mutant in mutants}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = b < c", {"a = b <= c"}),
        ("a = b == c", {"a = b != c"}),
        ("a = b and c", {"a = b or c"}),
        ("a = not b", {"a = (b)"}),
        ("a = 'é' if b else c", {"a = 'é' if (not (b)) else c"}),
        ("a.b()", {"pass"}),
        ("a += 1", {"pass", "a += (1 + 1)"}),
        ("raise a", {"pass"}),
        (
            "def a(b: int = 1): return True",
            {"def a(b: int = (1 + 1)): return True", "def a(b: int = 1): return False"},
        ),
    ],
)
def test_each_place_of_python_is_changed_once_per_kind(source: str, expected: set[str]) -> None:
    assert changed(source, list(python_places("x.py", source.encode()))) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        "log.info('a', extra={})",
        "assert a < b",
        "a: Literal[1] = b",
        "a = f'{b + 1}'",
        "if TYPE_CHECKING:\n    a()",
    ],
)
def test_what_promises_nothing_is_left_as_it_is(source: str) -> None:
    assert not list(python_places("x.py", source.encode()))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if a < b then", {"if a <= b then"}),
        ("local a = 'x < y' -- 1", set()),
        ("  call('SET', key, 1)", {"call('SET', key, (1 + 1))", ""}),
        ("local é = b ~= c", {"local é = b == c"}),
    ],
)
def test_each_place_of_lua_is_changed_once_per_kind(source: str, expected: set[str]) -> None:
    assert changed(source, list(lua_places("x.lua", source.encode()))) == expected


def test_a_seed_draws_the_same_mutants_one_per_line() -> None:
    drawn = draw(1, 20, only="model/pace.py")
    assert drawn == draw(1, 20, only="model/pace.py") != draw(2, 20, only="model/pace.py")
    assert len({(each.path, each.line) for each in drawn}) == len(drawn) == 20
