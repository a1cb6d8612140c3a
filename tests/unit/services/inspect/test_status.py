"""Looking into a store from outside."""

from pathlib import Path

import pytest
from tests.unit.services.stores import four_letters

from shoal.model.errors import Misconfigured
from shoal.services.inspect.status import status
from shoal.stores.folder.directory import StoreFolder


async def test_status_counts_every_crawl_and_knows_whether_the_store_is_in_use(tmp_path: Path) -> None:
    folder = StoreFolder(tmp_path / "store")
    await four_letters(folder)

    found = await status(str(folder.path))

    assert [(crawl.name, crawl.accepted, crawl.counts["dead"]) for crawl in found.crawls] == [
        ("one", 3, 3),
        ("two", 1, 1),
    ]
    assert found.crawls[0].dead_by_class == {"dns": 1, "timeout": 2}
    assert found.owner is None
    with folder.owned():
        owner = (await status(str(folder.path))).owner
    assert owner is not None
    assert owner.startswith("process ")


async def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no store"):
        await status(str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()
