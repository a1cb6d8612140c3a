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
def test_a_validator_is_kept_unless_it_is_longer_than_it_can_be_worth(length: int, kept: bool) -> None:
    writer: Any = Writer()
    value = "x" * length
    headers = (("etag", value), ("last-modified", value))
    response = Response("http://a.test/", 200, headers, b"", b"", fetched_at=1.0, elapsed=0.1)

    page = Pages(writer, writer).keep(Request(url="http://a.test/"), (), response, None)

    assert (page.etag, page.modified) == ((value, value) if kept else ("", ""))


async def test_an_archive_that_does_not_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.engine.pages.AGAIN", 0.0)
    answers = [Unavailable("away"), Unavailable("still away"), "the page"]

    class Reader:
        async def read_async(self, ref: PageRef) -> object:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    reader: Any = Reader()
    found: object = await Pages(reader, reader).recall(PageRef("segment", 0, 1))

    assert found == "the page"


async def test_a_segment_that_is_not_there_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Reader:
        location = "/elsewhere"

        async def read_async(self, ref: PageRef) -> object:
            raise PageMissing("there is no such segment")

    reader: Any = Reader()
    pages = Pages(reader, reader)
    for segment in ("one", "one", "other"):
        with pytest.raises(PageMissing):
            await pages.recall(PageRef(segment, 0, 1))

    told = [record for record in caplog.records if record.message == "archive.missing"]
    assert [vars(record)["segment"] for record in told] == ["one", "other"]
    assert vars(told[0])["place"] == "/elsewhere"
