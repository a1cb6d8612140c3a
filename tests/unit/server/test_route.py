"""Routes: a path is split before it is decoded."""

import pytest

from shoal.server.http.route import Matched, Unmatched
from shoal.server.routes.table import ROUTES, TABLE


@pytest.mark.parametrize(
    ("method", "path", "name", "values"),
    [
        ("GET", b"/api/v1/crawls", "list_crawls", {}),
        ("HEAD", b"/api/v1/crawls", "list_crawls", {}),
        ("GET", b"/api/v1/crawls/a%2Fb", "show_crawl", {"crawl": "a/b"}),
        ("GET", b"/api/v1/crawls/..", "show_crawl", {"crawl": ".."}),
        ("GET", b"/api/v1/hosts/shop.example:8000", "show_one_host", {"host": "shop.example:8000"}),
        ("POST", b"/api/v1/dead-letters/replay", "replay_dead_letters", {}),
    ],
)
def test_a_path_names_one_route(method: str, path: bytes, name: str, values: dict[str, str]) -> None:
    found = TABLE.find(method, path)
    assert isinstance(found, Matched)
    assert (found.route.name, found.values) == (name, values)


@pytest.mark.parametrize("path", [b"/api/v1/crawls/", b"//api/v1/crawls", b"/api/v1/crawls%2Fx/y/z", b"*", b"", b"/api/v1/crawls/%ff"])  # fmt: skip
def test_other_spellings_name_none(path: bytes) -> None:
    assert TABLE.find("GET", path) == Unmatched()


def test_another_method_names_the_ones_that_work() -> None:
    assert TABLE.find("PUT", b"/api/v1/crawls") == Unmatched(("GET", "HEAD", "POST"))


def test_every_route_has_a_name_a_summary_and_a_distinct_place() -> None:
    assert len({one.name for one in ROUTES}) == len(ROUTES)
    assert len({(one.method, one.path) for one in ROUTES}) == len(ROUTES)
    assert all(one.summary.endswith(".") for one in ROUTES)
    assert all(set(one.path_names) <= set(one.params.__struct_fields__) for one in ROUTES)
