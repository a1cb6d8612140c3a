"""Scope: which links may come in, and the rule that is named for those that may not."""

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.failure import FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.scope import Scope
from shoal.model.settings import CrawlSettings

SITE = Scope.of(CrawlSettings(), ["https://books.example/start"])


def test_by_default_a_crawl_stays_on_the_hosts_of_its_seeds() -> None:
    assert SITE.refuse("https://books.example/a", 1) is None
    assert SITE.refuse("http://books.example/a", 1) is None
    assert SITE.refuse("https://www.books.example/a", 1) is FailureClass.SCOPE
    assert SITE.refuse("https://books.example:8443/a", 1) is FailureClass.SCOPE


def test_any_host_means_any_host() -> None:
    scope = Scope.of(CrawlSettings(same_host=False), ["https://books.example/"])
    assert scope.refuse("https://elsewhere.example/", 1) is None


def test_named_hosts_replace_those_of_the_seeds() -> None:
    scope = Scope.of(CrawlSettings(), ["https://books.example/"], hosts=["Shop.example", "*.cdn.example"])
    assert scope.refuse("https://shop.example/", 1) is None
    assert scope.refuse("https://eu.west.cdn.example/", 1) is None
    assert scope.refuse("https://cdn.example/", 1) is FailureClass.SCOPE
    assert scope.refuse("https://evilcdn.example/", 1) is FailureClass.SCOPE
    assert scope.refuse("https://books.example/", 1) is FailureClass.SCOPE


@pytest.mark.parametrize(
    "url", ["mailto:a@books.example", "file:///etc/passwd", "ftp://books.example/", "javascript:0"]
)
def test_only_the_web_is_crawled(url: str) -> None:
    assert Scope().refuse(url, 0) is FailureClass.SCOPE


def test_links_must_match_the_pattern_and_seeds_need_not() -> None:
    scope = Scope(follow=r"/catalogue/")
    assert scope.refuse("https://a.example/catalogue/1", 1) is None
    assert scope.refuse("https://a.example/about", 1) is FailureClass.SCOPE
    assert scope.refuse("https://a.example/about", 0) is None


def test_depth_counts_links_from_a_seed() -> None:
    scope = Scope(depth=2)
    assert scope.refuse("https://a.example/", 2) is None
    assert scope.refuse("https://a.example/", 3) is FailureClass.DEPTH


def test_the_longest_url_is_admitted_and_one_byte_more_is_not() -> None:
    head = "https://a.example/"
    assert SITE.limits.url_bytes == 4096
    assert Scope().refuse(head + "x" * (4096 - len(head)), 1) is None
    assert Scope().refuse(head + "x" * (4097 - len(head)), 1) is FailureClass.TRAP


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("a/a", False),
        ("a/a/a", True),
        ("x/a/a/a/y", True),
        ("a/b/a/b/a/b", False),
        ("a/a/b/a/a", False),
        ("a/a?x=/a/a/a/a", False),
        ("/".join(map(str, range(32))), False),
        ("/".join(map(str, range(33))), True),
        ("p?q=" + "/" * 100, False),
    ],
)
def test_endless_paths_are_traps(path: str, refused: bool) -> None:
    assert Scope().refuse(f"https://a.example/{path}", 1) is (FailureClass.TRAP if refused else None)


@given(st.lists(st.sampled_from(["a", "b", ""]), max_size=8), st.integers(1, 3), st.integers(1, 6))
def test_the_trap_rule_is_the_plain_one(segments: list[str], repeats: int, depth: int) -> None:
    scope = Scope(limits=LinkLimits(segments=depth, repeated_segments=repeats))
    runs = any(
        len(set(segments[n : n + repeats + 1])) == 1
        for n in range(len(segments) - repeats)
        if len(segments) > repeats
    )
    refused = scope.refuse("https://a.example/" + "/".join(segments), 1) is FailureClass.TRAP
    assert refused == (len(segments) > depth or runs)


def test_a_scope_travels_to_other_processes_unchanged() -> None:
    scope = Scope.of(
        CrawlSettings(depth=3, follow="x", robots=False), ["https://a.example/"], hosts=["*.a.example"]
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(scope), type=Scope) == scope
    assert pickle.loads(pickle.dumps(scope)) == scope
