"""Arguments of a request become its URL, headers and body; contradictions are refused."""

import base64
import json

import msgspec
import pytest

import shoal
from shoal.model.request import Link, pack, unpack

URL = "https://shop.example/search"


@pytest.mark.parametrize(
    ("given", "url", "method", "body", "headers"),
    [
        ({}, URL, "GET", b"", {}),
        ({"params": {"q": "a b", "n": 1, "tag": ["x", "y"]}}, f"{URL}?q=a+b&n=1&tag=x&tag=y", "GET", b"", {}),
        ({"params": {"a": True, "b": None}}, f"{URL}?a=true", "GET", b"", {}),
        ({"json": {"a": [1]}}, URL, "POST", b'{"a":[1]}', {"Content-Type": "application/json"}),
        ({"json": [], "method": "PUT"}, URL, "PUT", b"[]", {"Content-Type": "application/json"}),
        (
            {"form": [("a", "é"), ("a", "&")]},
            URL,
            "POST",
            b"a=%C3%A9&a=%26",
            {"Content-Type": "application/x-www-form-urlencoded"},
        ),
        ({"form": {}, "headers": {"content-type": "x/y"}}, URL, "POST", b"", {"content-type": "x/y"}),
        ({"cookies": {"a": "1", "b": '"2"'}}, URL, "GET", b"", {"Cookie": 'a=1; b="2"'}),
        ({"auth": ("me", "p:w")}, URL, "GET", b"", {"Authorization": "Basic bWU6cDp3"}),
    ],
)
def test_arguments_become_url_method_headers_and_body(
    given: dict[str, object], url: str, method: str, body: bytes, headers: dict[str, str]
) -> None:
    request = shoal.Request(URL, **given)  # type: ignore[arg-type]
    assert (request.url, request.method, request.body, dict(request.headers)) == (url, method, body, headers)
    assert unpack(pack(request)) == request


def test_a_query_is_added_behind_the_one_that_is_there_and_before_the_fragment() -> None:
    assert shoal.Request(f"{URL}?a=1#top", params={"b": 2}).url == f"{URL}?a=1&b=2#top"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"json": 1, "form": {"a": 1}}, "one body: json and form"),
        ({"form": {"a": 1}, "body": b"x"}, "one body: form and body"),
        ({"form": {"a": 1}, "method": "GET"}, "give params="),
        ({"form": "a=1"}, "text goes into body="),
        ({"auth": "me:pw"}, "a tuple of two strings"),
        ({"auth": ("a:b", "c")}, "cannot contain a colon"),
        ({"auth": ("a", "b"), "headers": {"authorization": "x"}}, "both given"),
        ({"cookies": {"a": "1"}, "headers": {"COOKIE": "b=2"}}, "both given"),
        ({"cookies": {"a": "se;cret"}}, "'a' has characters"),
    ],
)
def test_contradictions_are_refused_and_no_message_shows_a_secret(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        shoal.Request(URL, **given)  # type: ignore[arg-type]
    assert "se;cret" not in str(error.value)


def test_only_the_url_has_no_name() -> None:
    with pytest.raises(TypeError, match="the URL"):
        shoal.Request(URL, "POST")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        shoal.Request(URL, verb="POST")  # type: ignore[call-arg]


def test_a_unique_text_makes_another_request_of_the_same_url() -> None:
    plain, one, other = (
        Link.to(shoal.Request(URL, unique=text)).fingerprint for text in ("", "one", "other")
    )
    assert len({plain, one, other}) == 3
    assert Link.to(shoal.Request(URL, unique="one", depth=3)).fingerprint == one


def test_a_request_that_is_copied_or_changed_stays_as_it_is() -> None:
    request = shoal.Request(URL, json={"a": 1}, auth=("u", "p"))
    changed = msgspec.structs.replace(request, depth=2)
    assert json.loads(changed.body) == {"a": 1}
    assert base64.b64decode(changed.headers["Authorization"].removeprefix("Basic ")) == b"u:p"
