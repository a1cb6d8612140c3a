"""Kinds: the header is believed unless the bytes plainly say otherwise."""

import pytest

from shoal.spider.text.content_type import ContentKind, detect_kind


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html; charset=utf-8", b"<p>", ContentKind.HTML),
        ("application/xhtml+xml", b"<?xml?><html>", ContentKind.HTML),
        ("Application/RSS+XML", b"<rss>", ContentKind.XML),
        ("text/xml", b"<a/>", ContentKind.XML),
        ("application/json", b"{}", ContentKind.JSON),
        ("application/ld+json", b"{}", ContentKind.JSON),
        ("text/plain", b"<p>", ContentKind.TEXT),
        ("application/javascript", b"x", ContentKind.TEXT),
        ("image/png", b"whatever", ContentKind.BINARY),
        ("application/pdf", b"<p>", ContentKind.BINARY),
        ("", b"  <!doctype html>", ContentKind.HTML),
        ("", b"\xef\xbb\xbf<html>", ContentKind.HTML),
        ("", b'<?xml version="1.0"?><html xmlns="x">', ContentKind.HTML),
        ("", b'<?xml version="1.0"?><urlset>', ContentKind.XML),
        ("", b' [{"a":1}]', ContentKind.JSON),
        ("", b"plain words", ContentKind.TEXT),
        ("application/octet-stream", b"\x01\x02\x03", ContentKind.BINARY),
        ("", b"", ContentKind.TEXT),
        ("nonsense", b"<p>", ContentKind.HTML),
    ],
)
def test_kinds_of_responses(content_type: str, body: bytes, kind: ContentKind) -> None:
    assert detect_kind(body, content_type) is kind


@pytest.mark.parametrize(
    "body",
    [
        b"%PDF-1.7",
        b"PK\x03\x04zip",
        b"\x89PNG\r\n",
        b"\xff\xd8\xff\xe0",
        b"GIF89a",
        b"\x1f\x8b\x08",
        b"abc\x00def",
    ],
)
def test_files_that_are_served_as_pages_are_not_parsed(body: bytes) -> None:
    assert detect_kind(body, "text/html") is ContentKind.BINARY


@pytest.mark.parametrize("body", [b"<p>a\x00b", "<p>wide".encode("utf-16")])
def test_zeros_in_markup_do_not_make_it_a_file(body: bytes) -> None:
    assert detect_kind(body, "text/html") is ContentKind.HTML


def test_utf_16_without_a_mark_is_decoded_if_it_is_declared() -> None:
    assert detect_kind("x<p>".encode("utf-16-le"), "text/html; charset=UTF-16") is ContentKind.HTML


def test_an_endless_content_type_costs_nothing() -> None:
    assert detect_kind(b"<p>", "text/html;" + "charset=x;" * 100_000) is ContentKind.HTML
