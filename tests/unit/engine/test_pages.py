"""Pages on their way into the archive and back."""

from hashlib import sha1
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.archive.pages import NOON, SENT, open_reader, open_writer
from tests.unit.archive.pages import page as archived_page

from shoal.archive.errors import PageMissing
from shoal.engine.generations.earlier import PageResult
from shoal.engine.pages import VALIDATOR_BYTES, Pages
from shoal.model.errors import Unavailable
from shoal.model.generations.all_links import AllLinks, pack_all
from shoal.model.generations.page_history import PageHistory
from shoal.model.page import PageRef, ParseResult, Response
from shoal.model.request import Request


class Writer:
    def append(self, *_: object) -> tuple[PageRef, str]:
        return PageRef("segment", 0, 1), "sha1:x"


@pytest.mark.parametrize(("length", "kept"), [(VALIDATOR_BYTES, True), (VALIDATOR_BYTES + 1, False)])
def test_a_validator_is_stored_unless_it_is_too_long(length: int, kept: bool) -> None:
    writer: Any = Writer()
    value = "x" * length
    headers = (("etag", value), ("last-modified", value))
    response = Response("http://a.test/", 200, headers, b"", b"", fetched_at=1.0, elapsed=0.1)

    page = Pages(writer, writer).keep(Request(url="http://a.test/"), (), response, None)

    assert (page.etag, page.modified) == ((value, value) if kept else ("", ""))


async def test_reading_is_retried_until_the_archive_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.engine.pages.RETRY_S", 0.0)
    answers = [Unavailable("away"), Unavailable("still away"), "the page"]

    class Reader:
        async def read_async(self, ref: PageRef) -> object:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    reader: Any = Reader()
    found: object = await Pages(reader, reader).read(PageRef("segment", 0, 1))

    assert found == "the page"


async def test_a_missing_segment_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Reader:
        location = "/elsewhere"

        async def read_async(self, ref: PageRef) -> object:
            raise PageMissing("there is no such segment")

    reader: Any = Reader()
    pages = Pages(reader, reader)
    for segment in ("one", "one", "other"):
        with pytest.raises(PageMissing):
            await pages.read(PageRef(segment, 0, 1))

    logged = [record for record in caplog.records if record.message == "archive.missing"]
    assert [vars(record)["segment"] for record in logged] == ["one", "other"]
    assert vars(logged[0])["place"] == "/elsewhere"


# The two prefixes of SHAttered: different bytes, the same SHA-1.
COLLISION = tuple(
    bytes.fromhex(
        "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f4865696768742033203020522f"
        "547970652034203020522f537562747970652035203020522f46696c7465722036203020522f436f6c6f7253706163652037203020"
        "522f4c656e6774682038203020522f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d"
        "3120697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01" + block
    )
    for block in (
        "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e97272"
        "2fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c"
        "78305a21566461309789606bd0bf3f98cda8044629a1",
        "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3dc38e96ac2"
        "2fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c"
        "782c76215660dd309791d06bd0af3f98cda4bc4629b1",
    )
)


@pytest.mark.parametrize(
    ("again", "encoding", "is_revisit"),
    [(COLLISION[0], "", True), (COLLISION[1], "", False), (COLLISION[0], "identity", False)],
)
async def test_only_a_page_with_the_same_bytes_is_a_revisit(
    tmp_path: Path, again: bytes, encoding: str, is_revisit: bool
) -> None:
    assert sha1(COLLISION[0]).digest() == sha1(COLLISION[1]).digest()
    writer, reader = open_writer(tmp_path), open_reader(tmp_path)
    pages = Pages(writer, reader)
    request, response = archived_page(COLLISION[0], headers=(("etag", '"1"'),))
    first = pages.keep(request, SENT, response, None)
    kept = PageResult.of(request.url, first, b"identity", ParseResult(0, all_links=pack_all(AllLinks())))
    history = PageHistory(status=200, result=pages.keep_result(request.url, kept, NOON))
    writer.flush()

    headers = (("etag", '"2"'), *((("content-encoding", encoding),) if encoding else ()))
    _, later = archived_page(again, headers=headers, at=NOON + 60)
    earlier = await pages.compare(later, await pages.earlier(history, b"identity"))
    second = pages.keep(request, SENT, later, earlier)
    writer.close()

    assert (earlier.etag, earlier.reusable, earlier.unchanged) == ('"1"', True, is_revisit)
    assert (second.ref == first.ref) == is_revisit
    if not encoding:
        assert reader.read(second.ref).wire == again


@pytest.mark.parametrize("missing", ["result", "body"])
async def test_a_page_whose_result_or_body_cannot_be_read_is_fetched_as_if_it_were_new(
    tmp_path: Path, missing: str
) -> None:
    writer, reader = open_writer(tmp_path), open_reader(tmp_path)
    pages = Pages(writer, reader)
    request, response = archived_page(b"body", headers=(("etag", '"1"'),))
    record = pages.keep(request, SENT, response, None)
    if missing == "body":
        record = msgspec.structs.replace(record, ref=PageRef(record.ref.segment, 1 << 20, 10))
    kept = PageResult.of(request.url, record, b"of another spider", ParseResult(0))
    at = pages.keep_result(request.url, kept, NOON)
    writer.close()

    history = PageHistory(status=200, result=record.ref if missing == "result" else at)
    earlier = await pages.earlier(history, b"identity")
    assert (earlier.etag, earlier.result, earlier.reusable) == ("", None, False)
