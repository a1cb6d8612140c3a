"""Compressed contents of outputs, in members one after another."""

from pathlib import Path

import pytest

from shoal.sinks.compression import DAMAGE, GZIP, NONE, ZSTD, Compression

EVERY = pytest.mark.parametrize("compression", [NONE, GZIP, ZSTD], ids=["none", "gzip", "zstd"])
PACKED = pytest.mark.parametrize("compression", [GZIP, ZSTD], ids=["gzip", "zstd"])
TEXTS = [b"one\n", b"", b"two\n" * 1000, b"three\n"]


@EVERY
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_members_are_read_as_one_text_wherever_chunks_end(compression: Compression, size: int) -> None:
    packed = b"".join(map(compression.pack, TEXTS))
    chunks = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert b"".join(compression.unpack(chunks)) == b"".join(TEXTS)


@PACKED
def test_a_member_that_was_cut_off_adds_at_most_a_part_of_its_text(compression: Compression) -> None:
    first, second = map(compression.pack, (b"one\n", b"two\n"))
    for length in range(len(second)):
        found = b"".join(compression.unpack([first + second[:length]]))
        assert found.startswith(b"one\n")
        assert b"one\ntwo\n".startswith(found)


@PACKED
def test_what_is_not_compressed_raises(compression: Compression) -> None:
    with pytest.raises(DAMAGE):
        list(compression.unpack([compression.pack(b"one\n"), b"neither gzip nor Zstandard"]))


@EVERY
def test_lines_are_read_from_a_file(compression: Compression, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(map(compression.pack, TEXTS)))
    with compression.open(path) as lines:
        assert list(lines) == b"".join(TEXTS).splitlines(keepends=True)
    assert not compression.holds_nothing(path)


@EVERY
def test_a_file_without_contents_holds_nothing(compression: Compression, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(compression.empty)
    assert compression.holds_nothing(path)


@PACKED
def test_a_file_of_another_format_holds_something(compression: Compression, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    assert not compression.holds_nothing(path)
