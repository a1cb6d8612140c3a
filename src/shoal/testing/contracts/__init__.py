"""Contract tests for backends, to be run by the author of a backend.

Each module has test classes for one interface: `frontier` for frontiers, `sink` for outputs, `client` for
HTTP clients. A test module derives from a class and provides its fixture. The classes need pytest and
pytest-asyncio; `shoal.testing` itself does not.
"""

import pytest

# Without this, a failed assertion in these modules would not show its values.
pytest.register_assert_rewrite(
    "shoal.testing.contracts.client", "shoal.testing.contracts.frontier", "shoal.testing.contracts.sink"
)
