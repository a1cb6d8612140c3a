import pytest
from tests.crash.fleet.seeds import SIZE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what takes minutes to `make chaos`."""
    if SIZE < 1:
        long = [item for item in items if item.get_closest_marker("full_size")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
