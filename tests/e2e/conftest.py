"""The site that tests of the command line crawl: one category of the demo's shop."""

from collections.abc import Iterator

import pytest

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop


@pytest.fixture
def shop() -> Iterator[str]:
    """Serve a shop of 45 pages. One page fails the first time, one link is broken, one page has moved."""
    with open_shop(Shop(categories=1), latency=0.001) as address:
        yield address
