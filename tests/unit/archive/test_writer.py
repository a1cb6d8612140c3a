import os
from datetime import date
from pathlib import Path

import pytest
from tests.unit.archive.pages import DAY, NOON, SENT, append, open_reader, open_writer, page, sizes, text

from shoal.archive import ArchiveWriter, SegmentFolder, StoredPage, WriteRules
from shoal.archive.names import SegmentName
from shoal.archive.writer import ArchiveCheckpoint, Cut, accept_loss, plan_cut
from shoal.model.errors import Misconfigured, Unavailable

FIRST = "books-20251115-00001.warc.gz"
SECOND = "books-20251115-00002.warc.gz"


def bodies(folder: Path) -> list[bytes]:
    """Read every page of the archive; damage of any kind is an error here."""
    found = list(open_reader(folder).pages())
    assert all(isinstance(entry, StoredPage) for entry in found)
    return [entry.body for entry in found if isinstance(entry, StoredPage)]


def test_the_reference_of_append_is_valid_after_the_flush(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    refs = [append(writer, text(n)) for n in range(5)]
    assert sizes(tmp_path) == {}

    writer.flush()

    assert [open_reader(tmp_path).read(ref).body for ref in refs] == [text(n) for n in range(5)]


def test_a_flush_is_a_single_write(tmp_path: Path) -> None:
    writes: list[int] = []

    class Counting(SegmentFolder):
        def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None:
            writes.append(len(data))
            super().write(segment, offset, data, sync=sync)

    writer = ArchiveWriter.open(Counting(tmp_path), None, WriteRules(crawl="books"))
    for n in range(50):
        append(writer, text(n))

    writer.flush()
    writer.flush()

    assert writes == [sizes(tmp_path)[FIRST]]


def test_the_memory_for_unflushed_pages_is_bounded(tmp_path: Path) -> None:
    rules = WriteRules(crawl="books", buffer_bytes=10_000)
    writer = ArchiveWriter.open(SegmentFolder(tmp_path), None, rules)

    total = sum(append(writer, text(n)).length for n in range(50))

    assert total - sizes(tmp_path)[FIRST] < 20_000


def test_a_checkpoint_never_contains_unwritten_pages(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer)

    with pytest.raises(RuntimeError):
        writer.checkpoint()


def test_pages_after_the_checkpoint_are_cut_off(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, b"known")
    writer.flush()
    checkpoint = writer.checkpoint()
    append(writer, b"lost")
    writer.flush()

    again = open_writer(tmp_path, checkpoint)
    append(again, b"after")
    again.close()

    assert bodies(tmp_path) == [b"known", b"after"]


def test_an_archive_with_an_interrupted_write_is_cut_back_to_its_checkpoint(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, b"known")
    writer.flush()
    checkpoint, known = writer.checkpoint(), sizes(tmp_path)[FIRST]
    append(writer, text(1, size=500))
    writer.flush()
    whole = (tmp_path / FIRST).read_bytes()

    for length in range(known, len(whole)):
        (tmp_path / FIRST).write_bytes(whole[:length])
        open_writer(tmp_path, checkpoint)
        assert (tmp_path / FIRST).read_bytes() == whole[:known]


def test_a_segment_newer_than_the_checkpoint_is_deleted(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=1)
    append(writer, b"known")
    writer.flush()
    checkpoint = writer.checkpoint()
    append(writer, b"lost")
    append(writer, b"lost too")
    writer.flush()
    assert len(sizes(tmp_path)) == 3

    again = open_writer(tmp_path, checkpoint, segment_bytes=1)

    assert list(sizes(tmp_path)) == [FIRST]
    assert append(again, b"after").segment == SECOND


def test_a_kill_before_the_first_page_was_committed_leaves_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    checkpoint = writer.checkpoint()
    append(writer)
    writer.flush()

    open_writer(tmp_path, checkpoint)

    assert sizes(tmp_path) == {}


def test_a_new_archive_continues_after_existing_segments(tmp_path: Path) -> None:
    old = open_writer(tmp_path)
    append(old, b"old")
    old.close()

    writer = open_writer(tmp_path)
    checkpoint = writer.checkpoint()
    assert append(writer, b"new").segment == SECOND
    writer.close()
    assert bodies(tmp_path) == [b"old", b"new"]

    open_writer(tmp_path, checkpoint)
    assert bodies(tmp_path) == [b"old"]


def test_other_crawls_in_the_same_folder_are_left_alone(tmp_path: Path) -> None:
    other = ArchiveWriter.open(SegmentFolder(tmp_path), None, WriteRules(crawl="other"))
    append(other, b"other")
    other.close()

    writer = open_writer(tmp_path)
    open_writer(tmp_path, writer.checkpoint())

    assert bodies(tmp_path) == [b"other"]


def test_an_archive_shorter_than_its_checkpoint_is_an_error(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=1)
    ref = append(writer, text(1))
    writer.flush()
    checkpoint = writer.checkpoint()
    append(writer)
    writer.flush()
    SegmentFolder(tmp_path).cut(SegmentName.parse(FIRST), ref.offset + 10)
    before = sizes(tmp_path)

    with pytest.raises(Misconfigured, match=f"{FIRST} lacks .* bytes"):
        open_writer(tmp_path, checkpoint)

    assert sizes(tmp_path) == before


def test_an_accepted_loss_is_followed_by_a_new_segment(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    kept, torn = append(writer, b"kept"), append(writer, text(1))
    writer.flush()
    checkpoint = writer.checkpoint()
    SegmentFolder(tmp_path).cut(SegmentName.parse(FIRST), torn.offset + 10)

    rules = WriteRules(crawl="books")
    again = ArchiveWriter.open(SegmentFolder(tmp_path), checkpoint, rules, accept_loss=True)
    after = append(again, b"after")
    again.flush()

    reader = open_reader(tmp_path)
    assert reader.read(kept).body == b"kept"
    assert reader.read(after).body == b"after"
    assert after.segment == SECOND
    open_writer(tmp_path, again.checkpoint())


def test_a_loss_is_accepted_once_and_only_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, segments = open_writer(tmp_path), SegmentFolder(tmp_path)
    assert accept_loss(segments, writer.checkpoint()) is None  # an archive without segments
    append(writer, text(1))
    writer.flush()
    checkpoint = writer.checkpoint()
    [length] = sizes(tmp_path).values()
    assert accept_loss(segments, checkpoint) is None

    segments.cut(SegmentName.parse(FIRST), length - 1)
    accepted = accept_loss(segments, checkpoint)
    assert accepted is not None
    assert accepted[1] == f"{tmp_path}/{FIRST} lacks 1 bytes"
    assert accept_loss(segments, accepted[0]) is None
    open_writer(tmp_path, accepted[0])

    monkeypatch.setattr(segments, "was_expired", lambda segment: True)
    assert accept_loss(segments, checkpoint) is None


def test_a_segment_ends_when_it_is_large_enough(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=10_000)
    refs = [append(writer, text(n)) for n in range(20)]
    writer.close()

    lengths = list(sizes(tmp_path).values())
    assert len(lengths) > 3
    assert all(10_000 <= length < 15_000 for length in lengths[:-1])
    assert [open_reader(tmp_path).read(ref).body for ref in refs] == [text(n) for n in range(20)]
    assert bodies(tmp_path) == [text(n) for n in range(20)]


def test_a_segment_ends_with_the_day_even_if_the_clock_is_set_back(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)

    segments = [
        append(writer, at=at).segment for at in (NOON, NOON + DAY, NOON, NOON + DAY + 1, NOON + 2 * DAY)
    ]

    assert [segment.split("-")[1] for segment in segments] == [
        "20251115", "20251116", "20251116", "20251116", "20251117",
    ]  # fmt: skip


def test_a_resumed_crawl_continues_the_same_segment(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, b"one")
    writer.close()

    again = open_writer(tmp_path, writer.checkpoint())
    append(again, b"two")
    again.close()

    assert list(sizes(tmp_path)) == [FIRST]
    assert bodies(tmp_path) == [b"one", b"two"]


def test_a_full_disk_loses_nothing_that_was_appended(tmp_path: Path) -> None:
    full = True

    class Disk(SegmentFolder):
        def write(self, segment: SegmentName, offset: int, data: bytes, *, sync: bool) -> None:
            if full:
                super().write(segment, offset, data[: len(data) // 2], sync=sync)  # until the disk was full
                raise Unavailable("no space left on device")
            super().write(segment, offset, data, sync=sync)

    writer = ArchiveWriter.open(Disk(tmp_path), None, WriteRules(crawl="books"))
    append(writer, b"one")
    with pytest.raises(Unavailable):
        writer.flush()
    append(writer, b"two")
    full = False

    writer.flush()

    assert bodies(tmp_path) == [b"one", b"two"]
    assert open_writer(tmp_path, writer.checkpoint()) is not None


def test_the_error_for_an_unwritable_folder_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(Misconfigured, match=r"archive: .*file: Not a directory"):
        open_writer(tmp_path / "file")


def test_a_synced_archive_syncs_the_segment_and_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name))
    writer = ArchiveWriter.open(SegmentFolder(tmp_path), None, WriteRules(crawl="books", fsync=True))

    append(writer)
    writer.flush()
    append(writer)
    writer.flush()

    assert synced == [tmp_path.name, FIRST, FIRST]


def test_the_digest_is_that_of_the_payload(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)

    digests = []
    for body in (b"", b"same", b"same", b"other"):
        request, response = page(body)
        digests.append(writer.append(request, SENT, response)[1])

    assert digests[0] == "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # the digest of no bytes
    assert digests[1] == digests[2] != digests[3]


def segment(number: int) -> SegmentName:
    return SegmentName(date(2025, 11, 15), number, "books")


def test_planning_a_cut_changes_nothing() -> None:
    here = {segment(1): 100, segment(2): 50, segment(3): 10}

    assert plan_cut(here, ArchiveCheckpoint(str(segment(2)), 30)) == Cut(
        (segment(3),), segment(2), 30, shorten=True
    )
    assert plan_cut(here, ArchiveCheckpoint(str(segment(3)), 10)) == Cut((), segment(3), 10)
    assert plan_cut(here, ArchiveCheckpoint(str(segment(3)), 15)) == Cut((), segment(3), 10, missing=5)
    assert plan_cut(here, ArchiveCheckpoint(str(segment(4)), 15)) == Cut((), segment(4), 0, missing=15)
    assert plan_cut(here, ArchiveCheckpoint()) == Cut(remove=tuple(here))
