"""Follows the links of a hub with the priority that their class names."""

from collections.abc import Iterator
from typing import Any

import shoal

spider = shoal.Spider("hub")


@spider.page(r"/$")
def hub(page: shoal.Page) -> Iterator[Any]:
    for priority in range(10, 0, -1):  # the worst first: what is asked for first must not follow from it
        yield from page.links(f".p{priority}", priority=priority)


@spider.page(r"/leaf/")
def leaf(page: shoal.Page) -> Iterator[Any]:
    yield {"url": page.url}
