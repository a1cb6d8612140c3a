"""Planted faults: the simulation must find each within a number of seeds."""

from collections.abc import Callable
from typing import NamedTuple


class Mutant(NamedTuple):
    scenario: str
    budget: int  # seeds, from 1, one of which must fail
    plant: Callable[[], None]


MUTANTS: dict[str, Mutant] = {}
