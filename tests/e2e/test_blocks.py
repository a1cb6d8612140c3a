"""Blocks, by vendor and by the user's own rules: never items, and named in log, trace and dead letters."""

from pathlib import Path

import pytest
from tests.e2e.command import QUICK, records, shoal
from tests.servers.redis import valkey
from tests.site.written import Sheet, serving_written

SETTINGS = """
[crawl]
level = "plain"
blocked_if = ["status: 200 and text: Go away", "selector: form#captcha and selector: .wall"]
[retry]
max_retries = 1
base = 0.01
[hosts."{host}"]
blocked_if = ["header: x-denied: yes"]
"""
SHEETS = {
    "/": Sheet(
        "".join(f'<a href="{path}">x</a>' for path in ("/wall", "/text", "/head", "/vendor", "/page"))
    ),
    "/wall": Sheet('<div class="wall"><form id="captcha"></form></div>'),
    "/text": Sheet("<h1>Go away</h1>"),
    "/head": Sheet("a page", headers=[("X-Denied", "Yes")]),
    "/vendor": Sheet("<p>wait</p>", headers=[("cf-mitigated", "challenge"), ("server", "cloudflare")]),
    "/page": Sheet('<form id="captcha">no wall</form>'),
}
REASONS = {
    "/wall": "blocked_if: selector: form#captcha and selector: .wall",
    "/text": "blocked_if: status: 200 and text: Go away",
    "/head": "blocked_if: header: x-denied: yes",
    "/vendor": "a block by Cloudflare: status 200, header cf-mitigated with challenge, header server with cloudflare",
}


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_blocks_are_retried_then_dead_letters_that_say_why(tmp_path: Path, kind: str) -> None:
    async with serving_written(SHEETS) as site, valkey(tmp_path / "valkey") as server:
        host = site.authorities[0]
        (tmp_path / "shoal.toml").write_text(SETTINGS.format(host=host))
        store = ("--store", server.dsn if kind == "fleet" else "data")
        crawl = ("crawl", f"http://{host}/", *QUICK, *store, "--out", "items.jsonl", "--json", "-v")
        ran = shoal(*crawl, cwd=tmp_path)
        letters = shoal("dlq", "list", *store, "--json", cwd=tmp_path).json["dead_letters"]
        traced = shoal("trace", f"http://{host}/vendor", *store, cwd=tmp_path).out

    assert (ran.code, ran.json["counts"]["dead"]) == (0, 4), ran.err
    assert {record["url"].partition(host)[2] for record in records(tmp_path / "items.jsonl")} == {
        "/",
        "/page",
    }
    found = {letter["url"].partition(host)[2]: (letter["class"], letter["reason"]) for letter in letters}
    assert found == {path: ("anti_bot", reason) for path, reason in REASONS.items()}
    assert {letter["attempts"] for letter in letters} == {2}
    assert ran.err.count("page.blocked") == 8
    assert "a block by Cloudflare" in traced


def test_a_selector_that_is_none_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    ran = shoal(
        "crawl",
        "http://127.0.0.1:1/",
        *QUICK,
        cwd=tmp_path,
        env={"SHOAL_CRAWL_BLOCKED_IF": "selector: a:has("},
    )
    assert ran.code == 1
    assert "blocked_if: selector: " in ran.complaint
