"""What the pages of commands and the cookbook show is what is printed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docs.making.session import PAGES, Shop, open_shop, renewed


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as shop:
        yield shop


@pytest.mark.timeout(300)  # the cookbook types some twenty commands
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_a_page_shows_what_is_printed(page: Path, shop: Shop, tmp_path: Path) -> None:
    # In threads: the name server that the commands ask lives on this loop.
    shown = await asyncio.to_thread(page.read_text)
    assert await asyncio.to_thread(renewed, shown, shop, tmp_path) == shown, "`make docs` writes it anew"


async def test_output_that_is_no_longer_true_is_found(shop: Shop, tmp_path: Path) -> None:
    page = "```console\n$ shoal --version\nshoal 0.0.0\n```\n\n<!-- sample -->\n```console\n$ date\nSunday\n```\n"
    now = await asyncio.to_thread(renewed, page, shop, tmp_path)

    assert "0.0.0" not in now
    assert "Sunday" in now
