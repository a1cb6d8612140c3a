"""Requests: packed small, unpacked whole, and identified before they travel."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.errors import Rejected
from shoal.model.request import FIRST, LAST, Link, Request, trace_id, unpack
from shoal.model.url import fingerprint_of

requests = st.builds(
    Request,
    url=st.sampled_from(["https://a.example/", "https://a.example/x?b=1&a=2", "http://127.0.0.1:8080/é"]),
    method=st.sampled_from(["GET", "POST"]),
    headers=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    body=st.binary(max_size=10),
    priority=st.integers(-3, 15),
    depth=st.integers(0, 100),
    pool=st.sampled_from(["http", "browser"]),
    route=st.text(max_size=5),
    data=st.dictionaries(st.text(max_size=5), st.integers(0, 9) | st.text(max_size=5), max_size=2),
    found_on=st.integers(0, 2**63 - 1),
    chain=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


@given(requests)
def test_a_request_comes_out_of_a_link_as_it_went_in(request: Request) -> None:
    link = Link.to(request)
    again = unpack(link.packed)
    assert msgspec.structs.replace(again, url=request.url) == request
    assert link.fingerprint == fingerprint_of(request.method, again.url, request.body)
    assert FIRST <= link.priority <= LAST
    assert link.pool == request.pool


def test_a_link_is_made_for_the_canonical_url() -> None:
    link = Link.to(Request(url="HTTPS://User:pw@A.example:443/b/../c#d"))
    assert unpack(link.packed).url == "https://a.example/c"
    assert link.host == "a.example"


def test_the_fingerprint_ignores_how_and_where_a_request_was_found() -> None:
    one = Link.to(Request(url="https://a.example/", depth=1, priority=1, data={"x": 1}))
    assert Link.to(Request(url="https://a.example/", depth=9, found_on=7)).fingerprint == one.fingerprint


def test_a_plain_request_packs_into_little_more_than_its_url() -> None:
    url = "https://books.example/catalogue/page-1.html"
    assert len(Link.to(Request(url=url, depth=3)).packed) <= len(url) + 10


def test_a_url_that_can_never_be_fetched_makes_no_link() -> None:
    with pytest.raises(Rejected):
        Link.to(Request(url="http://[bad"))


def test_a_trace_id_is_the_fingerprint_in_sixteen_digits() -> None:
    assert trace_id(0xAB) == "00000000000000ab"
