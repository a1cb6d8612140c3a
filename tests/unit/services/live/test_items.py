"""The newest items of a file, and a search in them."""

import json
from pathlib import Path

import pytest

from shoal.model.api.live import ItemPage
from shoal.services.live import items
from shoal.services.live.archived import decoded, inert_html
from shoal.services.live.items import newest_items


def written(path: Path, count: int, tail: bytes = b"") -> Path:
    path.write_bytes(
        b"".join(json.dumps({"n": n, "name": f"Lamp {n}"}).encode() + b"\n" for n in range(count)) + tail
    )
    return path


def numbers(page: ItemPage) -> list[int]:
    return [one["n"] for one in page.items]


@pytest.mark.parametrize("chunk", [7, 64, 1 << 20])
def test_items_come_newest_first_and_a_cursor_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(items, "CHUNK_BYTES", chunk)
    path = written(tmp_path / "items.jsonl", 25, b'{"n": 25, "na')  # the last line is being written
    found, cursor = [], None
    while True:
        page = newest_items(path, search="", cursor=cursor, limit=10)
        found.append(numbers(page))
        if page.next_cursor is None:
            break
        cursor = int(page.next_cursor)
    assert [len(one) for one in found] == [10, 10, 5]
    assert [n for one in found for n in one] == list(range(24, -1, -1))


def test_a_search_looks_through_a_bounded_part_and_says_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "items.jsonl", 2_000)
    assert numbers(newest_items(path, search="lamp 7", cursor=None, limit=3)) == [799, 798, 797]
    monkeypatch.setattr(items, "SEARCH_BYTES", 1_000)
    page = newest_items(path, search="nowhere", cursor=None, limit=3)
    assert page.items == []
    assert 1_000 <= page.searched_bytes < 1_100
    assert page.next_cursor == str(page.size_bytes - page.searched_bytes)


def test_lines_that_are_not_items_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_bytes(b'{"n": 1}\n[1]\nnot json\n\xff\n{"n": 2}\n\n')
    assert numbers(newest_items(path, search="", cursor=None, limit=9)) == [2, 1]
    path.write_bytes(b"")
    assert newest_items(path, search="", cursor=99, limit=9).next_cursor is None


def test_an_archived_page_keeps_its_text_and_nothing_that_acts() -> None:
    shown = inert_html(
        "<html><head><title>T</title><meta http-equiv=refresh content='0;url=//evil'><base href=//evil>"
        "<style>@import '//evil'</style></head><body onload=alert(1) style='background:url(//evil)'>"
        "<h1 id=x onclick='alert(1)'>Lamps</h1><script>alert(2)</script><a href='javascript:alert(3)'>link</a>"
        "<img src=x onerror=alert(4) alt='a lamp'><form action=//evil><input name=q></form>"
        "<svg onload=alert(5)><use href=//evil></svg><iframe src=//evil></iframe><p title='kept'>text</p>"
    )
    for gone in ("alert", "evil", "script", "<a ", "<img", "<form", "<svg", "style", "onload", "iframe"):
        assert gone not in shown.lower(), gone
    for kept in ("<h1>Lamps</h1>", "<u>link</u>", "[a lamp]", 'title="kept"'):
        assert kept in shown
    assert inert_html("") == ""


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("", "caf\u00e9"),
        ("; charset=iso-8859-1", "caf\u00c3\u00a9"),
        ("; charset=no-such", "caf\u00e9"),
        ("; charset=idna", "caf\u00e9"),
        ("; charset=punycode", "caf\u00e9"),
        ("; charset=hex", "caf\u00e9"),
        ("; charset=a\0b", "caf\u00e9"),
    ],
)
def test_an_archived_page_is_text_whatever_charset_its_site_names(charset: str, text: str) -> None:
    assert decoded("caf\u00e9".encode(), f"text/html{charset}") == text
