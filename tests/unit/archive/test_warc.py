"""Segments as other software sees them: warcio, which wrote the reference reader, and fastwarc."""

import re
import warnings
from pathlib import Path
from typing import Any

from tests.unit.archive.pages import NOON, SENT, append, open_writer, page, record_of, text
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from shoal.archive.warc import RecordIds, warc_date
from shoal.model.page import Response
from shoal.model.request import Request

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the package warns about itself when it is imported
    from fastwarc.warc import ArchiveIterator as FastIterator
    from fastwarc.warc import WarcRecordType

SECRET = "s3cret-value"


def write_some(folder: Path) -> Path:
    """Archive pages of every kind and return the segment."""
    writer = open_writer(folder)
    request, response = page(text(1))
    ref, digest = writer.append(request, SENT, response)
    append(writer, text(2), encoded=True)
    append(writer, b"", status=404)
    append(writer, b"", status=204)
    append(writer, b"\x00\xff" * 100, status=599, headers=(("content-type", "image/x-odd"), ("x-é", "ü")))
    chunked = (("transfer-encoding", "chunked"), ("content-length", "99999"), ("content-type", "text/html"))
    append(writer, text(3), headers=chunked)
    original = record_of(ref, digest, response)
    writer.append_revisit(request, SENT, page(b"", status=304, headers=(), at=NOON + 1)[1], original)
    writer.append_revisit(request, SENT, page(text(1), at=NOON + 2)[1], original)
    posted = Request(url="https://books.example/search", method="POST", body=b"q=shoal")
    writer.append(posted, (*SENT, ("Content-Length", "7")), page(url=posted.url)[1])
    writer.close()
    return folder / ref.segment


def warcio_records(path: Path) -> list[dict[str, Any]]:
    found = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            found.append(
                {
                    "type": record.rec_type,
                    "headers": dict(record.rec_headers.headers),
                    "http": record.http_headers,
                    "body": record.content_stream().read(),
                }
            )
            assert record.digest_checker.passed is not False
    return found


def test_warcio_reads_every_record_and_all_digests_are_right(tmp_path: Path) -> None:
    records = warcio_records(write_some(tmp_path))

    assert [record["type"] for record in records] == [
        "warcinfo",
        *["response", "request"] * 6,
        *["revisit", "request"] * 2,
        "response",
        "request",
    ]
    responses = [record for record in records if record["type"] == "response"]
    assert [record["body"] for record in responses][:2] == [text(1), text(2)]
    assert [record["http"].get_statuscode() for record in responses] == [
        "200",
        "200",
        "404",
        "204",
        "599",
        "200",
        "200",
    ]
    for record in responses:
        assert record["headers"]["WARC-Target-URI"].startswith("https://books.example/")
        assert record["headers"]["WARC-Date"] == "2025-11-15T12:00:00.123456Z"
        assert record["headers"]["WARC-IP-Address"] == "192.0.2.7"


def test_the_checker_of_warcio_finds_no_error(tmp_path: Path, capsys: Any) -> None:
    class Arguments:
        verbose = True
        inputs = (str(write_some(tmp_path)),)

    assert Checker(Arguments()).process_all() == 0
    report = capsys.readouterr().out
    assert "digest pass" in report
    assert "fail" not in report


def test_fastwarc_reads_every_record_and_all_digests_are_right(tmp_path: Path) -> None:
    path = write_some(tmp_path)

    with path.open("rb") as file:
        seen = [record.record_type for record in FastIterator(file, parse_http=False)]
    assert seen[0] == WarcRecordType.warcinfo
    assert seen.count(WarcRecordType.response) == 7
    assert seen.count(WarcRecordType.request) == 9
    assert seen.count(WarcRecordType.revisit) == 2

    with path.open("rb") as file:
        for record in FastIterator(file, record_types=WarcRecordType.response):
            assert record.verify_payload_digest()

    with path.open("rb") as file:
        responses = FastIterator(file, record_types=WarcRecordType.response, auto_decode="content")
        assert [record.reader.read() for record, _ in zip(responses, range(2), strict=False)] == [
            text(1),
            text(2),
        ]


def test_the_length_is_corrected_and_chunking_removed(tmp_path: Path) -> None:
    responses = [record for record in warcio_records(write_some(tmp_path)) if record["type"] == "response"]

    chunked = responses[5]
    assert chunked["http"].get_header("Content-Length") == "4000"
    assert chunked["http"].get_header("Transfer-Encoding") is None
    assert chunked["body"] == text(3)
    assert responses[3]["http"].get_header("Content-Length") is None  # 204


def test_a_request_belongs_to_its_response(tmp_path: Path) -> None:
    records = warcio_records(write_some(tmp_path))[1:]

    for answer, asked in zip(records[::2], records[1::2], strict=True):
        assert asked["headers"]["WARC-Concurrent-To"] == answer["headers"]["WARC-Record-ID"]
    first = records[1]["http"]
    assert first.protocol == "GET"
    assert first.statusline == "/a?b=1 HTTP/1.1"
    assert first.get_header("Host") == "books.example"
    assert records[-1]["http"].protocol == "POST"
    assert records[-1]["body"] == b"q=shoal"


def test_revisits_name_profile_and_original(tmp_path: Path) -> None:
    records = warcio_records(write_some(tmp_path))
    original = records[1]["headers"]

    for record, profile in zip(
        [record["headers"] for record in records if record["type"] == "revisit"],
        ["server-not-modified", "identical-payload-digest"],
        strict=True,
    ):
        assert record["WARC-Profile"] == f"http://netpreserve.org/warc/1.1/revisit/{profile}"
        assert record["WARC-Refers-To-Target-URI"] == original["WARC-Target-URI"]
        assert record["WARC-Refers-To-Date"] == original["WARC-Date"]
        assert record["WARC-Payload-Digest"] == original["WARC-Payload-Digest"]


def test_every_segment_starts_with_its_software_and_nothing_about_the_machine(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=1)
    append(writer)
    append(writer)
    writer.close()

    for path in sorted(tmp_path.iterdir()):
        info = warcio_records(path)[0]
        assert info["type"] == "warcinfo"
        assert info["headers"]["WARC-Filename"] == path.name
        told = dict(line.split(": ", 1) for line in info["body"].decode().splitlines())
        assert told["software"].startswith("Shoal/")
        assert told["robots"] == "obey"
        assert told["isPartOf"] == "books"
        assert set(told) == {"software", "format", "conformsTo", "isPartOf", "robots"}


def test_no_secret_reaches_the_archive(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    names = ("Authorization", "cookie", "Proxy-Authorization", "X-API-Key")
    cookies = (("set-cookie", f"sid={SECRET}; Path=/"), ("set-cookie", f"b={SECRET}"))
    request, response = page(headers=cookies)
    writer.append(request, [(name, f"Bearer {SECRET}") for name in names], response)
    writer.close()

    [path] = tmp_path.iterdir()
    _, answer, asked = warcio_records(path)

    assert [value for _, value in asked["http"].headers] == ["redacted"] * 4
    assert answer["http"].headers[0] == ("set-cookie", "sid=redacted; Path=/")
    assert answer["http"].headers[1] == ("set-cookie", "b=redacted")


def test_record_ids_are_uuids_and_never_repeat() -> None:
    one, other = RecordIds(), RecordIds()

    made = [ids() for ids in (one, other) for _ in range(1000)]

    assert len(set(made)) == 2000
    pattern = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert all(pattern.fullmatch(made_id) for made_id in made)


def test_dates_carry_microseconds_rounded_not_cut() -> None:
    assert warc_date(0.0) == b"1970-01-01T00:00:00.000000Z"
    assert warc_date(1.9999999) == b"1970-01-01T00:00:02.000000Z"
    assert warc_date(1_763_208_000.000001) == b"2025-11-15T12:00:00.000001Z"


def test_a_response_without_an_address_has_no_address_header(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    url = "https://books.example/"
    writer.append(Request(url=url), SENT, Response(url, 200, (), b"x", b"x", NOON, 0.1))
    writer.close()

    [path] = tmp_path.iterdir()
    assert "WARC-IP-Address" not in warcio_records(path)[1]["headers"]
