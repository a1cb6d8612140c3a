import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, InitVar, field
from typing import Any

import pytest

from shoal import values

DEFINE: dict[str, Callable[..., Any]] = {"ours": values.dataclass, "standard": dataclasses.dataclass}


@values.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def total(self) -> int:
        return self.x + self.y


@values.dataclass(slots=True)
class Counter:
    n: int = 0


def define(by: Callable[..., Any], **options: bool) -> Any:
    """Define a class with every kind of field."""

    @by(slots=True, **options)
    class Sample:
        a: int
        b: str = field(repr=False)
        c: list[int] = field(default_factory=list)
        d: int = field(default=4, compare=False)
        e: float = field(default=5.0, kw_only=True)
        f: list[int] = field(default_factory=lambda: [6], init=False)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError(self.a)

    return Sample


def told(by: Callable[..., Any], **options: bool) -> list[object]:
    """Return what can be seen of a class: of its instances, of what it refuses, and of its definition."""
    sample = define(by, **options)
    one, same, other = sample(a=1, b="b", d=9), sample(a=1, b="b"), sample(2, "b", [3], e=7)
    seen: list[object] = [repr(one), one == same, one == other, one == 1, dataclasses.asdict(other)]
    seen += [repr(dataclasses.replace(one, a=8)), repr(copy.copy(other)), sample.__match_args__]
    seen += [[(one.name, one.init, one.kw_only) for one in dataclasses.fields(sample)], sample.__slots__]
    attempts: list[Callable[[], object]] = [
        lambda: hash(sample(1, "b", ())) == hash(sample(1, "b", ())),
        lambda: setattr(one, "a", 3),
        lambda: delattr(one, "a"),
        lambda: sample(1),
        lambda: sample(-1, "b"),
        lambda: sample(1, "b", [], 4, 5.0),
        lambda: sample(1, "b", f=[]),
    ]
    for attempt in attempts:
        try:
            seen.append(attempt())
        except Exception as error:
            seen.append(type(error).__name__ if isinstance(error, TypeError) else repr(error))
    return seen


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("eq", [True, False])
@pytest.mark.parametrize("kw_only", [True, False])
def test_a_class_behaves_as_one_of_the_standard_library(*, frozen: bool, eq: bool, kw_only: bool) -> None:
    def attempt(by: Callable[..., Any]) -> object:
        try:
            return told(by, frozen=frozen, eq=eq, kw_only=kw_only)
        except TypeError as error:  # positional arguments of a class that takes none
            return type(error)

    assert attempt(values.dataclass) == attempt(dataclasses.dataclass)


def test_instances_are_pickled_and_stay_frozen() -> None:
    point = pickle.loads(pickle.dumps(Point(1, tags=["a"])))
    assert (point, point.tags, point.total) == (Point(1), ["a"], 3)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    assert pickle.loads(pickle.dumps(Counter(3))) == Counter(3)


def test_defaults_are_made_for_each_instance() -> None:
    Point(1).tags.append("a")
    assert Point(1).tags == []


def test_methods_of_the_class_are_kept() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Own:  # noqa: PLW1641 - the decorator adds it
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __repr__(self) -> str:
            return "own"

    assert (Own(1), repr(Own(1)), hash(Own(1))) == (Own(2), "own", hash((1,)))


def unknown_kinds(by: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """Define classes that the standard library makes: with a base, with an order and an `InitVar`."""

    @by(frozen=True, slots=True)
    class Base:
        a: int

    @by(frozen=True, slots=True)
    class Derived(Base):
        b: int = 2

    @by(frozen=True, slots=True, order=True)
    class Ordered:
        a: int
        given: InitVar[int] = 0  # type: ignore[assignment]

    return Base, Derived, Ordered


@pytest.mark.parametrize("by", DEFINE.values(), ids=DEFINE)
def test_what_is_not_known_is_left_to_the_standard_library(by: Callable[..., Any]) -> None:
    Base, Derived, Ordered = unknown_kinds(by)  # noqa: N806
    assert repr(Derived(1)).endswith("Derived(a=1, b=2)")
    assert Derived(1) == Derived(1, 2) != Base(1)
    assert Ordered(1) < Ordered(2, given=3)


def test_no_method_is_compiled_before_it_is_called() -> None:
    sample = define(values.dataclass, frozen=True)
    assert sample.__init__.__qualname__.endswith("method")
    sample(1, "b")
    assert sample.__init__.__qualname__.endswith("Sample.__init__")
