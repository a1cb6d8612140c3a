"""Segments on an object store."""

import asyncio
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from tests.servers.s3 import BUCKET, SECRET, S3Server
from tests.servers.shared import shared_s3
from tests.unit.archive.pages import DAY, NOON, append, decode, text

from shoal.archive import (
    ArchiveReader,
    ArchiveWriter,
    PageExpired,
    PageMissing,
    StoredPage,
    WriteRules,
    expire,
)
from shoal.archive.bucket import SegmentBucket
from shoal.archive.contract import Segments
from shoal.archive.names import SegmentName
from shoal.archive.registry import choose_location, open_crawl_folder, open_segments
from shoal.archive.segments import SegmentFolder
from shoal.model.errors import Misconfigured, Unavailable


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with shared_s3() as running:
        yield running


@pytest.fixture
def environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(environment: None, request: pytest.FixtureRequest) -> Segments:
    return open_segments(f"s3://{BUCKET}/{request.node.name}/", "books")


def opened(segments: Segments, *, writer: str = "", buffer_bytes: int = 1 << 20) -> ArchiveWriter:
    return ArchiveWriter.open(segments, None, WriteRules("books", writer=writer, buffer_bytes=buffer_bytes))


def reader_of(segments: Segments) -> ArchiveReader:
    return ArchiveReader(segments, decode)


def names(segments: Segments) -> list[str]:
    return [str(segment) for segment in segments.segments()]


def test_another_machine_reads_pages_by_reference(bucket: Segments) -> None:
    writer = opened(bucket)
    refs = [append(writer, text(n)) for n in range(20)]
    assert names(bucket) == []
    writer.flush()
    later = append(writer, text(20))
    writer.flush()

    elsewhere = SegmentBucket(str(bucket.path))
    assert [reader_of(elsewhere).read(ref).body for ref in [*refs, later]] == [text(n) for n in range(21)]
    assert names(bucket) == ["books-20251115-00001.warc.gz", "books-20251115-00002.warc.gz"]


def test_every_flush_makes_a_complete_segment(bucket: Segments) -> None:
    writer = opened(bucket)
    for n in range(3):
        append(writer, text(n))
        writer.flush()
        writer.flush()  # without pages: no object

    pages = list(reader_of(bucket).pages())
    assert [page.body for page in pages if isinstance(page, StoredPage)] == [text(n) for n in range(3)]
    kinds = [found[1].kind for found in reader_of(bucket).records() if isinstance(found, tuple)]
    assert kinds == ["warcinfo", "response", "request"] * 3


def test_a_full_buffer_becomes_objects_at_the_next_flush(bucket: Segments) -> None:
    writer = opened(bucket, buffer_bytes=10_000)
    refs = [append(writer, text(n)) for n in range(20)]
    assert names(bucket) == []
    writer.flush()

    assert len(names(bucket)) > 2
    assert [reader_of(bucket).read(ref).body for ref in refs] == [text(n) for n in range(20)]


async def test_pages_can_be_appended_while_others_are_being_written(bucket: Segments) -> None:
    writer = opened(bucket)
    first = append(writer, text(1))
    flushing = asyncio.create_task(writer.flush_async())
    await asyncio.sleep(0)
    second = append(writer, text(2))
    await flushing

    assert reader_of(bucket).read(first).body == text(1)
    with pytest.raises(PageMissing):
        reader_of(bucket).read(second)
    await writer.flush_async()
    assert (await reader_of(bucket).read_async(second)).body == text(2)


async def test_a_folder_is_written_and_read_at_once(tmp_path: Path) -> None:
    writer = opened(SegmentFolder(tmp_path))
    ref = append(writer, text(1))
    await writer.flush_async()

    assert (await reader_of(SegmentFolder(tmp_path)).read_async(ref)).body == text(1)


def test_pages_are_written_after_an_outage_of_the_store(
    bucket: Segments, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("shoal.archive.bucket.RETRIES", 0)
    away = SegmentBucket(str(bucket.path))
    writer = opened(bucket)
    ref = append(writer, text(1))
    monkeypatch.setattr(writer, "_segments", away)
    with pytest.raises(Unavailable, match=f"archive: s3://{BUCKET}"):
        writer.flush()
    monkeypatch.setattr(writer, "_segments", bucket)
    writer.flush()

    assert reader_of(bucket).read(ref).body == text(1)


def test_workers_do_not_overwrite_segments_of_others(bucket: Segments) -> None:
    writers = [opened(bucket, writer=f"w{n}") for n in range(2)]
    refs = [append(writer, text(n)) for n, writer in enumerate(writers)]
    for writer in writers:
        writer.close()
    again = opened(bucket, writer="w1")  # another process under the same name
    refs.append(append(again, text(2)))
    again.close()

    assert [reader_of(bucket).read(ref).body for ref in refs] == [text(n) for n in range(3)]
    assert [str(segment) for segment in bucket.segments("books.w1")] == [
        "books.w1-20251115-00001.warc.gz",
        "books.w1-20251115-00002.warc.gz",
    ]


def test_segments_after_the_checkpoint_are_deleted(bucket: Segments) -> None:
    writer = opened(bucket)
    known = append(writer, text(1))
    writer.flush()
    checkpoint = writer.checkpoint()
    append(writer, text(2))
    writer.close()

    again = ArchiveWriter.open(bucket, checkpoint, WriteRules("books"))
    assert names(bucket) == [known.segment]
    assert again.checkpoint() == checkpoint


def test_segments_expire_on_an_object_store(bucket: Segments) -> None:
    writer = opened(bucket)
    old, new = append(writer, b"old"), append(writer, b"new", at=NOON + 4 * DAY)
    writer.close()

    assert expire(bucket, keep_days=3, today=date(2025, 11, 20)) == [old.segment]
    with pytest.raises(PageExpired):
        reader_of(bucket).read(old)
    assert reader_of(bucket).read(new).body == b"new"
    bucket.remove(SegmentName.parse(old.segment))  # does nothing: it is already deleted


def test_a_read_beyond_the_end_returns_fewer_bytes(bucket: Segments) -> None:
    segment = SegmentName.parse("books-20251115-00001.warc.gz")
    assert bucket.read(segment, 0, 10) is None
    assert bucket.size(segment) is None
    bucket.write(segment, 0, b"0123456789", sync=True)

    assert bucket.size(segment) == 10
    assert [bucket.read(segment, *at) for at in ((8, 10), (10, 5), (99, 1), (3, 0))] == [b"89", b"", b"", b""]
    bucket.cut(segment, 4)
    assert bucket.read(segment, 0, 10) == b"0123"


@pytest.mark.usefixtures("environment")
def test_an_outage_is_not_taken_for_the_end_of_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("shoal.archive.bucket.RETRIES", 0)
    away = SegmentBucket(f"s3://{BUCKET}/x")

    # The number is also the status of a read beyond the end.
    with pytest.raises(Unavailable):
        away.read(SegmentName.parse("books-20251115-00416.warc.gz"), 0, 10)


@pytest.mark.usefixtures("environment")
def test_configuration_errors_contain_no_secrets() -> None:
    segment = SegmentName.parse("books-20251115-00001.warc.gz")
    with pytest.raises(Misconfigured, match="there is no such bucket") as caught:
        open_segments("s3://nowhere/x", "books").write(segment, 0, b"1", sync=True)
    assert SECRET not in str(caught.value)
    with pytest.raises(Misconfigured, match="no archive for the scheme 'ftp'; known: s3, gs, az"):
        open_segments("ftp://user:secret@host/x", "books")


def test_a_location_without_a_scheme_is_a_folder(tmp_path: Path) -> None:
    assert open_segments(str(tmp_path), "a/b").path == tmp_path / "a%2Fb"


@pytest.mark.usefixtures("environment")
def test_the_folder_of_a_crawl_contains_the_location_of_its_pages(tmp_path: Path) -> None:
    folder, location = tmp_path / "books", f"s3://{BUCKET}/placed"
    writer = opened(choose_location(folder, location, "books"))
    ref = append(writer, text(1))
    writer.close()

    assert reader_of(open_crawl_folder(folder)).read(ref).body == text(1)
    assert choose_location(folder, "", "books").path == f"{location}/books"
    assert choose_location(folder, location, "books").path == f"{location}/books"
    with pytest.raises(Misconfigured, match=f"are in {location}/books"):
        choose_location(folder, f"s3://{BUCKET}/elsewhere", "books")


def test_pages_can_go_to_another_folder(tmp_path: Path) -> None:
    choose_location(tmp_path / "crawl", str(tmp_path / "large disk"), "books")

    assert open_crawl_folder(tmp_path / "crawl").path == tmp_path / "large disk" / "books"


@pytest.mark.usefixtures("environment")
def test_an_archive_has_one_location(tmp_path: Path) -> None:
    writer = opened(choose_location(tmp_path, "", "books"))
    append(writer, text(1))
    writer.close()

    assert open_crawl_folder(tmp_path).path == tmp_path
    with pytest.raises(Misconfigured, match="give the crawl another store"):
        choose_location(tmp_path, f"s3://{BUCKET}/placed", "books")
