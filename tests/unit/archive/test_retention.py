from datetime import date
from pathlib import Path

import pytest
from tests.unit.archive.pages import DAY, NOON, SENT, append, open_reader, open_writer, page, record_of, sizes

from shoal.archive import PageExpired, PageMissing, SegmentFolder, expire
from shoal.archive.names import SegmentName
from shoal.archive.retention import expired_segments
from shoal.model.errors import Misconfigured
from shoal.model.page import PageRef

TODAY = date(2025, 11, 20)


def segment(day: int) -> SegmentName:
    return SegmentName(date(2025, 11, day), 1, "books")


@pytest.mark.parametrize(
    ("keep_days", "going"),
    [(0, []), (1, [15, 16, 17, 18]), (4, [15]), (5, []), (3, [15, 16])],
)
def test_a_segment_is_kept_for_that_many_whole_days(keep_days: int, going: list[int]) -> None:
    segments = [segment(day) for day in range(15, 21)]

    assert expired_segments(segments, keep_days=keep_days, today=TODAY) == [segment(day) for day in going]


def test_an_expired_page_differs_from_a_missing_one(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    old, new = append(writer, b"old"), append(writer, b"new", at=NOON + 4 * DAY)
    writer.close()
    folder = SegmentFolder(tmp_path)

    assert expire(folder, keep_days=3, today=TODAY) == [old.segment]
    assert expire(folder, keep_days=3, today=TODAY) == []

    reader = open_reader(tmp_path)
    with pytest.raises(PageExpired):
        reader.read(old)
    assert reader.read(new).body == b"new"
    folder.remove(SegmentName.parse(new.segment))
    with pytest.raises(PageMissing):
        reader.read(new)


def test_a_revisit_whose_body_has_expired_is_an_expired_page(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = page(b"old")
    ref, digest = writer.append(request, SENT, response)
    _, again = page(b"", status=304, at=NOON + 4 * DAY)
    ref, _ = writer.append_revisit(request, SENT, again, record_of(ref, digest, response))
    writer.close()

    expire(SegmentFolder(tmp_path), keep_days=3, today=TODAY)

    with pytest.raises(PageExpired):
        open_reader(tmp_path).read(ref)


def test_the_next_call_finishes_an_interrupted_deletion(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    refs = [append(writer, at=NOON + day * DAY) for day in range(3)]
    writer.close()
    folder = SegmentFolder(tmp_path)
    folder.mark_expired(date(2025, 11, 17))
    folder.remove(SegmentName.parse(refs[0].segment))

    assert expire(folder, keep_days=1, today=TODAY) == [refs[1].segment, refs[2].segment]
    assert sizes(tmp_path) == {}


def test_a_crawl_whose_last_segment_has_expired_continues(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, b"old")
    writer.close()
    checkpoint = writer.checkpoint()
    expire(SegmentFolder(tmp_path), keep_days=1, today=TODAY)

    again = open_writer(tmp_path, checkpoint)
    again = open_writer(tmp_path, again.checkpoint())
    ref = append(again, b"new", at=NOON + 5 * DAY)
    again.close()

    assert open_reader(tmp_path).read(ref).body == b"new"


def test_a_damaged_expiry_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".expired").write_text("yesterday")

    with pytest.raises(Misconfigured, match="does not hold a date"):
        open_reader(tmp_path).read(PageRef("books-20251115-00001.warc.gz", 0, 1))
