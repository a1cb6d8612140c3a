"""Pages on their way into the archive and back."""

from typing import Any

import pytest

from shoal.archive.errors import PageMissing
from shoal.engine.pages import VALIDATOR_BYTES, Pages
from shoal.model.errors import Unavailable
from shoal.model.page import PageRef, Response
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
