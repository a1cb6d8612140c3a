"""The digest of a page's text, and the shapes of URLs."""

import time

import pytest
from shoal.model.traps.text_digest import text_digest

from shoal.model.traps.url_pattern import shape_of


def test_pages_that_differ_in_their_tags_are_equal() -> None:
    one = text_digest(b"<p class=a>Hello <a href='/x?sid=1'>there</a></p>")
    assert one is not None
    assert one == text_digest(b"<p>Hello <a href='/x?sid=2' id=z>there</a><input value=t></p>")
    assert one != text_digest(b"<p>Hello <a href='/x?sid=1'>you</a></p>")
    assert one != text_digest(b"<p>Hello <a>there</a></p><script>data = 1</script>")


@pytest.mark.parametrize("body", [b"", b"<p></p>", b" \n<p>\t</p>", b"<unclosed"])
def test_a_page_without_text_has_no_digest(body: bytes) -> None:
    assert text_digest(body) is None


def test_a_crafted_page_takes_linear_time() -> None:
    began = time.process_time()
    text_digest(b"<" * 10_000_000)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example.com/s/0a9f3c/home", "https://b.example.com/s/77aa01/home"),
        ("https://a.example.com/home?sid=1&x=2", "https://a.example.com/home?sid=q&x="),
        ("https://a.example.com/home;jsessionid=AB12", "https://a.example.com/home;jsessionid=CD"),
        ("https://a.example.com/abcdefghijklmnopqrstuvwx", "https://a.example.com/zyxwvutsrqponmlkjihgfedc"),
    ],
)
def test_ids_and_hosts_do_not_change_a_shape(one: str, other: str) -> None:
    assert shape_of(one, "example.com") == shape_of(other, "example.com")


def test_words_and_names_of_parameters_do() -> None:
    urls = ("/", "/a", "/b", "/a/b", "/a?x=1", "/a?y=1", "/a;s=1")
    assert len({shape_of(f"https://a.test{url}", "a.test") for url in urls}) == len(urls)
