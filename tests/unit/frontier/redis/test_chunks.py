"""Chunks of a lane: their packed form, and the places to store them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore, MemoryStore

from shoal.frontier.redis.chunks import (
    ChunkStore,
    FolderChunks,
    ObjectChunks,
    open_chunks,
    pack_chunk,
    unpack_chunk,
)
from shoal.model.errors import Unavailable

PLACES: dict[str, Callable[[Path], ChunkStore]] = {
    "folder": lambda folder: FolderChunks(folder / "chunks"),
    "object store": lambda _: ObjectChunks(MemoryStore),
    "object store in a folder": lambda folder: ObjectChunks(lambda: LocalStore(folder)),
}
entries = st.lists(st.binary(min_size=20, max_size=200), max_size=50)


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ChunkStore:
    return PLACES[request.param](tmp_path)


@given(entries)
def test_packing_and_unpacking_returns_the_same_entries(entries: list[bytes]) -> None:
    assert unpack_chunk(pack_chunk(entries)) == entries


async def test_a_chunk_can_be_read_until_it_is_deleted(place: ChunkStore) -> None:
    await place.put("shoal/07/1/500-ab", b"body")
    await place.put("shoal/07/1/500-cd", b"other")
    assert await place.get("shoal/07/1/500-ab") == b"body"

    await place.delete("shoal/07/1/500-ab")
    await place.delete("shoal/07/1/500-ab")  # by another worker at the same time

    with pytest.raises((OSError, Unavailable)):
        await place.get("shoal/07/1/500-ab")
    assert await place.get("shoal/07/1/500-cd") == b"other"


async def test_only_old_chunks_are_listed(place: ChunkStore) -> None:
    await place.put("shoal/07/1/500-ab", b"body")
    assert [name async for name in place.older(3600.0)] == []
    assert [name async for name in place.older(-3600.0)] == ["shoal/07/1/500-ab"]


async def test_an_empty_place_lists_nothing(place: ChunkStore) -> None:
    assert [name async for name in place.older(-3600.0)] == []


async def test_chunks_are_stored_beside_the_archive_if_all_workers_can_reach_it(tmp_path: Path) -> None:
    assert open_chunks("") is None
    assert open_chunks("mystore://of-a-package/x") is None
    assert open_chunks(str(tmp_path)) is None  # a folder may be local to one machine
    place = open_chunks(tmp_path.as_uri())
    assert place is not None
    await place.put("shoal/07/1/500-ab", b"body")
    assert (tmp_path / "spilled/shoal/07/1/500-ab").read_bytes() == b"body"
