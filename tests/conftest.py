"""What holds for every test."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run what speaks to the network on the event loop that Shoal runs on; they differ in how sockets end."""
    if item.path.parent.name == "fetch" or item.path.name == "test_client.py":
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
