"""What the tests of the command line crawl: the demo's shop, with one category of it."""

from collections.abc import Iterator

import pytest

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop


@pytest.fixture
def shop() -> Iterator[str]:
    """Serve a shop of 45 pages, one of which fails the first time; a link is broken and another has moved."""
    with open_shop(Shop(categories=1), latency=0.001) as address:
        yield address
