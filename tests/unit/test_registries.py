"""The built-in backends of every registry."""

from typing import Any

import pytest

from shoal.archive import registry as archives
from shoal.backends import Backends
from shoal.bus import registry as buses
from shoal.sinks import registry as sinks

REGISTRIES: dict[str, Backends[Any]] = {
    "archives": archives._ARCHIVES,
    "buses": buses._BUSES,
    "sinks": sinks._SINKS,
}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_builtin_can_be_loaded(kind: str) -> None:
    registry = REGISTRIES[kind]
    for name in registry._builtins:
        assert isinstance(registry.load(name, subject=kind), registry._type)


def test_the_groups_of_entry_points_are_public() -> None:
    assert (sinks.GROUP, buses.GROUP, archives.GROUP) == ("shoal.sinks", "shoal.buses", "shoal.archives")
