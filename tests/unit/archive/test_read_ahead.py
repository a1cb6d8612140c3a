"""Reading ahead: the same bytes, in fewer reads."""

from datetime import date
from pathlib import Path

from shoal.archive.names import SegmentName
from shoal.archive.read_ahead import ReadAhead
from shoal.archive.segments import SegmentFolder

ONE = SegmentName(date(2026, 1, 2), 1, "shop")
TWO = SegmentName(date(2026, 1, 2), 2, "shop")


class Counting(SegmentFolder):
    reads = 0

    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None:
        self.reads += 1
        return super().read(segment, offset, length)


def test_small_reads_in_order_become_few_large_ones(tmp_path: Path) -> None:
    folder = Counting(tmp_path)
    text = bytes(range(250)) * 4
    (tmp_path / str(ONE)).write_bytes(text)
    (tmp_path / str(TWO)).write_bytes(text[::-1])
    ahead = ReadAhead(folder, block_bytes=300)

    for segment, content in ((ONE, text), (TWO, text[::-1])):
        assert b"".join(ahead.read(segment, at, 10) or b"" for at in range(0, 1000, 10)) == content
    assert folder.reads == 2 * 4
    assert ahead.read(ONE, 500, 700) == text[500:]  # more than a block, and more than there is
    assert ahead.read(ONE, 20, 10) == text[20:30]  # backwards


def test_a_segment_that_grows_is_read_to_its_new_end(tmp_path: Path) -> None:
    path = tmp_path / str(ONE)
    path.write_bytes(b"abc")
    ahead = ReadAhead(SegmentFolder(tmp_path))

    assert ahead.read(ONE, 0, 10) == b"abc"
    path.write_bytes(b"abcdef")
    assert ahead.read(ONE, 3, 10) == b"def"
    assert ahead.read(ONE, 6, 10) == b""
    assert ahead.read(TWO, 0, 10) is None
    assert ahead.read(ONE, 1, 2) == b"bc"


def test_the_end_of_a_segment_that_cannot_grow_is_read_once(tmp_path: Path) -> None:
    folder = Counting(tmp_path)
    folder.grows = False
    (tmp_path / str(ONE)).write_bytes(b"x" * 500)
    ahead = ReadAhead(folder, block_bytes=1000)

    assert [len(ahead.read(ONE, at, 300) or b"") for at in range(0, 700, 100)] == [300] * 3 + [200, 100, 0, 0]
    assert folder.reads == 2  # one more read beyond the end
