"""Pages that a browser rendered: the main response, and what was made of it, in records that refer to it."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.archive.pages import SENT, open_reader, open_writer, page, text

from shoal.archive import PageUnreadable, StoredPage
from shoal.model.page import Rendered, Response
from shoal.model.rendering import Click, Fill, Rendering
from shoal.model.request import Request

MADE = Rendered(
    "http://a.test/#end",
    console=("console.error: gr\u00fcn", "line\nbreak"),
    partial=("deadline",),
    leads_to="http://a.test/next",
    replaced=(("content-encoding", "gzip"),),
    browser="HeadlessChrome/1",
    screenshot=b"\x89PNG" + bytes(range(256)),
    pdf=b"%PDF-1.4",
)
DOM = "<html><body>d\u00f6m</body></html>".encode()


def rendered(number: int = 1, made: Rendered = MADE) -> tuple[Request, Response]:
    request, response = page(text(number))
    render = Rendering(
        actions=(Click("b"), Fill("#password", "hunter2"), Fill("#who", "Anna")), screenshot=True
    )
    request = msgspec.structs.replace(request, pool="browser", render=render)
    return request, msgspec.structs.replace(response, body=DOM, rendered=made)


def test_a_rendered_page_is_read_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = rendered()
    ref, _ = writer.append(request, SENT, response)
    plain = writer.append(*page(text(2))[:1], SENT, page(text(2))[1])[0]
    writer.flush()
    reader = open_reader(tmp_path)

    stored = reader.read(ref)

    assert (stored.body, stored.wire, stored.rendered) == (DOM, response.wire, MADE)
    assert stored.leads_to == "http://a.test/next"
    assert [one.ref for one in reader.pages() if isinstance(one, StoredPage)] == [ref, plain]
    assert reader.read(plain).rendered is None
    raw = reader.raw_records(ref)
    assert len(raw) > ref.length


def test_what_is_typed_into_a_secret_field_is_not_archived(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = rendered()
    ref, _ = writer.append(request, SENT, response)
    writer.flush()

    found = open_reader(tmp_path).read(ref).request

    assert found.pool == "browser"
    assert found.render is not None
    assert found.render.screenshot
    assert found.render.actions == (Click("b"), Fill("#password", "redacted"), Fill("#who", "Anna"))


def test_many_console_errors_are_cut_to_what_readers_of_warc_files_expect(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    request, response = rendered(made=Rendered("http://a.test/", console=("x" * 500,) * 50))
    ref, _ = writer.append(request, SENT, response)
    writer.flush()

    stored = open_reader(tmp_path).read(ref)

    assert stored.rendered is not None
    assert 5 <= len(stored.rendered.console) < 20


def test_every_flipped_bit_of_a_rendered_page_is_noticed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    ref, _ = writer.append(*rendered()[:1], SENT, rendered()[1])
    writer.flush()
    [segment] = tmp_path.rglob("*.warc.gz")
    whole = segment.read_bytes()
    good = open_reader(tmp_path).read(ref)
    for at in range(ref.offset, ref.offset + ref.length, 7):
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            found = open_reader(tmp_path).read(ref)
        except PageUnreadable:
            continue
        assert found == good, at  # a bit that means nothing, such as the system in a gzip header


def test_a_page_whose_records_are_mixed_up_is_damaged(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    first, _ = writer.append(*rendered(1)[:1], SENT, rendered(1)[1])
    writer.append(*rendered(2)[:1], SENT, rendered(2)[1])
    writer.flush()
    spanning = msgspec.structs.replace(first, length=len(open_reader(tmp_path).raw_records(first)))
    with pytest.raises(PageUnreadable, match="where a page should end"):
        open_reader(tmp_path).read(spanning)
