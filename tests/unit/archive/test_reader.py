import gzip
import os
import random
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.archive.pages import (
    NOON,
    SENT,
    append,
    decode,
    open_reader,
    open_writer,
    page,
    record_of,
    sizes,
    text,
)

from shoal.archive import (
    ArchiveReader,
    Damage,
    PageDamaged,
    PageMissing,
    PageUnreadable,
    SegmentFolder,
    StoredPage,
)
from shoal.archive.gzip_members import pack
from shoal.archive.names import SegmentName
from shoal.archive.reader import MAX_REVISITS
from shoal.archive.request_metadata import parse_metadata
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.page import PageRef, Response
from shoal.model.request import Request

FIRST = "books-20251115-00001.warc.gz"


def test_a_page_is_read_as_it_was_fetched(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = page(text(1), headers=(("content-type", "text/html"), ("x-a", "1"), ("x-a", "2")))
    ref, digest = writer.append(request, SENT, response)
    writer.flush()

    stored = open_reader(tmp_path).read(ref)

    assert stored == StoredPage(
        ref=ref,
        url=response.url,
        status=200,
        headers=(*response.headers, ("content-length", "4000")),
        body=response.body,
        wire=response.wire,
        fetched_at=NOON,
        digest=digest,
    )
    assert stored.header("x-a") == "1"
    assert stored.header("etag", "none") == "none"


def test_an_encoded_page_is_stored_as_sent_and_read_decoded(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = page(text(1), encoded=True)
    ref, _ = writer.append(request, SENT, response)
    writer.flush()

    stored = open_reader(tmp_path).read(ref)

    assert (stored.wire, stored.body) == (response.wire, response.body)
    assert stored.header("content-encoding") == "gzip"


def test_the_decoder_gets_the_whole_header_and_the_recorded_size(tmp_path: Path) -> None:
    asked: list[tuple[str, int | None]] = []
    headers = (("content-encoding", "identity, Deflate"), ("content-encoding", "br"))
    writer = open_writer(tmp_path)
    refs = [append(writer, headers=headers), append(writer, encoded=True)]
    writer.flush()

    def note(wire: bytes, content_encoding: str, decoded_bytes: int | None) -> bytes:
        asked.append((content_encoding, decoded_bytes))
        return wire

    for ref in refs:
        ArchiveReader(SegmentFolder(tmp_path), note).read(ref)

    assert asked == [("identity, Deflate,br", None), ("gzip", 14)]


@settings(max_examples=50, deadline=None)
@given(
    body=st.binary(max_size=2000),
    status=st.integers(200, 599),
    values=st.lists(
        st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"))
    ),
)
def test_any_response_round_trips(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, status: int, values: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    headers = tuple((f"x-{n}", value) for n, value in enumerate(values))
    writer = open_writer(folder)
    ref = append(writer, body, status=status, headers=headers)
    writer.close()

    stored = open_reader(folder).read(ref)

    assert (stored.body, stored.status) == (body, status)
    assert stored.headers[: len(headers)] == headers


def test_a_line_break_in_a_header_cannot_make_a_second_header(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    ref = append(writer, headers=(("x-a", "1\r\nx-b: 2\r\n\r\nbody"), ("x-c", "a\nb\0c")))
    writer.flush()

    stored = open_reader(tmp_path).read(ref)

    assert stored.headers[:2] == (("x-a", "1  x-b: 2    body"), ("x-c", "a b c"))
    assert stored.body == b"<h1>hello</h1>"


def test_a_line_break_in_a_url_cannot_make_a_second_field(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    ref = append(writer, url="https://books.example/\r\nWARC-Type: x")
    writer.flush()

    assert open_reader(tmp_path).read(ref).url == "https://books.example/%0D%0AWARC-Type:%20x"


def test_a_body_that_looks_like_records_is_only_a_body(tmp_path: Path) -> None:
    forged = pack(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n")
    writer = open_writer(tmp_path)
    for body in (forged, b"WARC/1.1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b"\r\n\r\n", forged * 100):
        append(writer, body)
    writer.flush()

    assert len(list(open_reader(tmp_path).pages())) == 4


# Damage


@pytest.mark.parametrize("encoded", [False, True])
def test_every_flipped_bit_is_detected(tmp_path: Path, encoded: bool) -> None:
    writer = open_writer(tmp_path)
    request, response = page(text(1, size=600), encoded=encoded)
    ref, _ = writer.append(request, SENT, response)
    writer.close()
    path = tmp_path / ref.segment
    whole = path.read_bytes()
    reader = open_reader(tmp_path)
    genuine = reader.read(ref)

    unnoticed = 0
    for place in range(ref.offset, ref.offset + ref.length):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            stored = reader.read(ref)
        except PageDamaged:
            continue
        assert stored == genuine
        unnoticed += 1
    # Bits without a meaning: the time and system in a gzip header, padding between blocks.
    assert unnoticed < 12


def test_a_truncated_page_is_damaged_wherever_it_ends(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    ref = append(writer, text(1, size=600))
    writer.close()
    reader, folder = open_reader(tmp_path), SegmentFolder(tmp_path)

    for length in range(ref.offset + ref.length - 1, ref.offset, -7):
        folder.cut(SegmentName.parse(ref.segment), length)
        with pytest.raises(PageDamaged, match=rf"archive: {ref.segment} at {ref.offset}: "):
            reader.read(ref)


@pytest.mark.parametrize(("shift", "stretch"), [(1, 0), (-1, 0), (0, 1), (0, -1), (-200, 0), (0, 400)])
def test_a_wrong_reference_never_returns_a_page(tmp_path: Path, shift: int, stretch: int) -> None:
    writer = open_writer(tmp_path)
    append(writer, text(1))
    ref = append(writer, text(2))
    append(writer, text(3))
    writer.close()

    with pytest.raises(PageDamaged):
        open_reader(tmp_path).read(PageRef(ref.segment, ref.offset + shift, ref.length + stretch))


def test_the_reference_of_a_request_record_is_not_a_page(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    ref = append(writer)
    writer.close()
    after = ref.offset + ref.length

    with pytest.raises(PageDamaged, match="request"):
        open_reader(tmp_path).read(PageRef(ref.segment, after, sizes(tmp_path)[FIRST] - after))


def test_the_payload_digest_detects_a_forged_page_with_a_valid_checksum(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    ref = append(writer, b"the real page")
    writer.close()
    path = tmp_path / ref.segment
    record = gzip.decompress(path.read_bytes()[ref.offset :][: ref.length])
    forged = pack(record.replace(b"the real page", b"the fake page"))
    path.write_bytes(forged)

    with pytest.raises(PageDamaged, match="payload does not match"):
        open_reader(tmp_path).read(PageRef(ref.segment, 0, len(forged)))


def test_a_missing_segment_differs_from_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(PageMissing):
        open_reader(tmp_path).read(PageRef(FIRST, 0, 10))


@pytest.mark.timeout(5)
def test_a_pipe_in_the_place_of_a_segment_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FIRST)
    folder, segment = SegmentFolder(tmp_path), SegmentName.parse(FIRST)

    with pytest.raises(PageMissing):
        open_reader(tmp_path).read(PageRef(FIRST, 0, 10))
    assert folder.size(segment) is None
    with pytest.raises(Misconfigured, match="is not a file"):
        folder.write(segment, 0, b"data", sync=False)


@pytest.mark.parametrize("segment", ["../secret", "/etc/passwd", "", "books-20251115-00001.warc.gz/../x"])
def test_a_reference_cannot_lead_out_of_the_folder(tmp_path: Path, segment: str) -> None:
    with pytest.raises(Rejected, match="not the name"):
        open_reader(tmp_path).read(PageRef(segment, 0, 10))


def test_a_gzip_bomb_in_the_archive_is_not_unpacked(tmp_path: Path) -> None:
    bomb = pack(bytes(4_000_000))
    (tmp_path / FIRST).write_bytes(bomb)
    reader = ArchiveReader(SegmentFolder(tmp_path), decode, record_bytes=100_000)

    with pytest.raises(PageDamaged, match="longer than"):
        reader.read(PageRef(FIRST, 0, len(bomb)))
    assert [type(found) for found in reader.pages()] == [Damage]


# Unchanged pages


def revisit(
    tmp_path: Path, again: tuple[Request, Response], *, hops: int = 1
) -> tuple[PageRef, PageRef, str]:
    """Archive a page, then `hops` revisits each of which refers to the one before."""
    writer = open_writer(tmp_path)
    request, response = page(text(1), encoded=True, headers=(("etag", '"1"'),))
    ref, digest = writer.append(request, SENT, response)
    first, record = ref, record_of(ref, digest, response)
    for _ in range(hops):
        ref, digest = writer.append_revisit(again[0], SENT, again[1], record)
        record = record_of(ref, digest, again[1])
    writer.close()
    return first, ref, digest


def test_a_304_reads_as_the_page_it_confirms_at_the_later_time(tmp_path: Path) -> None:
    original, ref, digest = revisit(tmp_path, page(b"", status=304, headers=(), at=NOON + 60))

    stored = open_reader(tmp_path).read(ref)

    first = open_reader(tmp_path).read(original)
    assert stored.body == first.body == text(1)
    assert (stored.status, stored.headers, stored.digest) == (200, first.headers, digest)
    assert (stored.ref, stored.original) == (ref, original)
    assert stored.fetched_at == pytest.approx(NOON + 60)


def test_an_unchanged_page_has_its_own_headers(tmp_path: Path) -> None:
    again = page(text(1), encoded=True, headers=(("etag", '"2"'),), at=NOON + 60)
    original, ref, _ = revisit(tmp_path, again)

    stored = open_reader(tmp_path).read(ref)

    assert stored.body == text(1)
    assert stored.header("etag") == '"2"'
    assert stored.original == original
    assert ref.length < original.length / 2


def test_a_chain_of_revisits_is_followed_to_its_end(tmp_path: Path) -> None:
    original, ref, _ = revisit(tmp_path, page(b"", status=304, headers=()), hops=5)

    stored = open_reader(tmp_path).read(ref)

    assert (stored.body, stored.original) == (text(1), original)


def test_a_revisit_of_a_damaged_page_is_damaged(tmp_path: Path) -> None:
    original, ref, _ = revisit(tmp_path, page(b"", status=304, headers=()))
    path = tmp_path / ref.segment
    data = bytearray(path.read_bytes())
    data[original.offset + original.length // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(PageDamaged):
        open_reader(tmp_path).read(ref)


def test_a_revisit_that_refers_to_nothing_is_damaged(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = page(b"", status=304, headers=())
    later = PageRef(FIRST, 10_000, 100)
    ref, _ = writer.append_revisit(request, SENT, response, record_of(later, "sha1:X", response))
    writer.close()

    with pytest.raises(PageDamaged, match="ends before"):
        open_reader(tmp_path).read(ref)


def test_a_long_chain_of_revisits_is_not_followed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = page(b"", status=304, headers=())
    ref, digest = writer.append(request, SENT, page(b"body")[1])
    refs = [ref]
    for _ in range(MAX_REVISITS + 1):
        refs.append(writer.append_revisit(request, SENT, response, record_of(refs[-1], digest, response))[0])
    writer.close()

    reader = open_reader(tmp_path)
    assert reader.read(refs[MAX_REVISITS - 1]).original == ref
    with pytest.raises(PageDamaged, match="do not lead to a body"):
        reader.read(refs[-1])


def test_a_revisit_of_another_payload_is_damaged(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = page(b"one")
    ref, _ = writer.append(request, SENT, response)
    ref, _ = writer.append_revisit(request, SENT, response, record_of(ref, "sha1:OTHER", response))
    writer.close()

    with pytest.raises(PageDamaged, match="another payload"):
        open_reader(tmp_path).read(ref)


# Going through segments


def outline(found: list[StoredPage | Damage]) -> list[bytes | str]:
    return [
        entry.body if isinstance(entry, StoredPage) else "torn" if entry.torn else "hole" for entry in found
    ]


def test_an_incomplete_end_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, b"one")
    append(writer, b"two")
    torn = append(writer, text(3))
    writer.close()
    SegmentFolder(tmp_path).cut(SegmentName.parse(FIRST), torn.offset + 20)

    assert outline(list(open_reader(tmp_path).pages())) == [b"one", b"two", "torn"]


def test_damage_affects_only_the_page_it_is_in(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    refs = [append(writer, text(n)) for n in range(5)]
    writer.close()
    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    middle = refs[2].offset + refs[2].length // 2
    data[middle : middle + 50] = random.Random(1).randbytes(50)
    path.write_bytes(data)

    found = list(open_reader(tmp_path).pages())

    assert outline(found) == [text(0), text(1), "hole", text(3), text(4)]
    assert isinstance(found[2], Damage)
    assert found[2].ref.offset == refs[2].offset


def test_zeros_at_the_end_as_after_a_power_loss_are_reported(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, b"one")
    writer.close()
    with (tmp_path / FIRST).open("ab") as file:
        file.write(bytes(700_000))

    assert outline(list(open_reader(tmp_path).pages())) == [b"one", "torn"]


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=400), at=st.integers(0, 3000))
def test_no_damage_raises_or_invents_a_page(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    writer = open_writer(folder)
    refs = [append(writer, text(n, size=300)) for n in range(4)]
    writer.close()
    path = folder / FIRST
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + data + whole[at + len(data) :])
    reader = open_reader(folder)

    found = list(reader.pages())
    assert {entry.body for entry in found if isinstance(entry, StoredPage)} <= {
        text(n, size=300) for n in range(4)
    }
    for n, ref in enumerate(refs):
        is_hit = at < ref.offset + ref.length and ref.offset < at + len(data)
        with suppress(PageUnreadable) if is_hit else nullcontext():
            assert reader.read(ref).body == text(n, size=300)


def test_every_byte_of_a_segment_is_part_of_a_record_or_of_damage(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    refs = [append(writer, text(n)) for n in range(4)]
    writer.close()
    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    data[refs[1].offset + 30] ^= 255
    path.write_bytes(data)

    at = 0
    for found in open_reader(tmp_path).records():
        ref = found.ref if isinstance(found, Damage) else found[0]
        assert ref.offset == at
        at += ref.length
    assert at == len(data)


def test_records_larger_than_a_chunk_are_found(tmp_path: Path) -> None:
    big = [random.Random(n).randbytes(700_000) for n in range(3)]
    writer = open_writer(tmp_path)
    refs = [append(writer, body) for body in big]
    writer.close()

    assert outline(list(open_reader(tmp_path).pages())) == big

    path = tmp_path / FIRST
    data = bytearray(path.read_bytes())
    data[refs[0].offset + 5000] ^= 255
    path.write_bytes(data)
    assert outline(list(open_reader(tmp_path).pages())) == ["hole", *big[1:]]


def test_a_growing_segment_can_be_read(tmp_path: Path) -> None:
    writer, reader = open_writer(tmp_path), open_reader(tmp_path)
    for n in range(1, 4):
        append(writer, text(n))
        writer.flush()

        assert outline(list(reader.pages())) == [text(m) for m in range(1, n + 1)]


def test_only_the_named_segments_are_read(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=1)
    refs = [append(writer, text(n)) for n in range(3)]
    writer.close()

    found = open_reader(tmp_path).pages([refs[2].segment, refs[0].segment])

    assert outline(list(found)) == [text(0), text(2)]


def test_a_file_that_is_not_a_segment_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "x-20251115-00001.warc.gz.part").write_text("mine too")

    assert list(open_reader(tmp_path).pages()) == []


def test_a_page_that_cannot_be_decoded_is_damage_in_a_scan(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, encoded=True)
    writer.close()

    def refuse(wire: bytes, content_encoding: str, decoded_bytes: int | None) -> bytes:
        raise Rejected("decoded body above the limit")

    [found] = ArchiveReader(SegmentFolder(tmp_path), refuse).pages()

    assert isinstance(found, Damage)
    assert "above the limit" in found.reason


@pytest.mark.parametrize(
    "request_",
    [
        Request(url="https://books.example/"),
        Request(url="https://books.example/b", depth=3, found_on=(1 << 63) - 1),
        Request(url="https://books.example/b", route="book", data={"category": "Poésie", "raw": b"\xff"}),
        Request(url="https://books.example/s", method="POST"),
    ],
)
def test_the_metadata_of_a_request_is_read_with_its_page(tmp_path: Path, request_: Request) -> None:
    writer = open_writer(tmp_path)
    ref, _ = writer.append(request_, SENT, page(url=request_.url)[1])
    writer.close()
    assert open_reader(tmp_path).read(ref).request == request_


def test_data_too_long_for_a_header_is_not_stored(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request = Request(url="https://books.example/", route="book", data={"text": "x" * 10_000})
    ref, _ = writer.append(request, SENT, page(url=request.url)[1])
    writer.close()
    assert open_reader(tmp_path).read(ref).request == Request(url=request.url, route="book")


def test_invalid_request_metadata_is_damage(tmp_path: Path) -> None:
    with pytest.raises(PageDamaged, match="Shoal-Request"):
        parse_metadata("https://books.example/", "bm90IG1zZ3BhY2s=")
