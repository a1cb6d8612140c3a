"""Regular expressions of the user that never end on what a site sends."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, shoal, started
from tests.servers.redis import valkey
from tests.site.written import Sheet, serving_written

SLOW = r"^http://[^/]*/((a+)+b|ok|next)"  # exponential on /aaa...c
LONG = "/" + "a" * 40 + "c"
LIMITS = {"SHOAL_PARSE_CPU": "1", "SHOAL_PARSE_CRASHES": "1"}


@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_redirect_to_what_follow_cannot_judge_costs_one_request(kind: str, tmp_path: Path) -> None:
    sheets = {
        "/": Sheet('<a href="/ok/slow"></a><a href="/ok/out"></a><a href="/ok/in"></a>'),
        "/ok/slow": Sheet(status=302, headers=[("Location", LONG)]),
        "/ok/out": Sheet(status=302, headers=[("Location", "/elsewhere")]),
        "/ok/in": Sheet(status=302, headers=[("Location", "/next")]),
        "/next": Sheet("here"),
    }
    async with valkey(tmp_path) as server, serving_written(sheets) as site:
        dsn = server.dsn if kind == "fleet" else str(tmp_path / "store")
        start = f"http://{site.authorities[0]}/"
        options = ("--follow", SLOW, "--store", dsn, *QUICK, "--json", "--quiet", "--max-dead", "9")
        ran = shoal("crawl", start, *options, cwd=tmp_path, env=LIMITS)
        letters = shoal("dlq", "list", "--store", dsn, "--json", cwd=tmp_path).json["dead_letters"]
        fetched = {hit.path for hit in await site.hits()}

    assert ran.code == 0, ran.err
    assert [(letter["class"], letter["url"]) for letter in letters] == [("poison", f"{start}ok/slow")]
    assert "`follow` cannot judge" in letters[0]["reason"]
    assert ran.json["filtered"] == {"scope": 1}, "the target of /ok/out"
    assert (ran.json["counts"]["done"], ran.json["counts"]["filtered"]) == (4, 0)
    assert fetched == {"/robots.txt", "/", "/ok/slow", "/ok/out", "/ok/in", "/next"}


async def test_a_signal_is_heard_while_an_expression_runs(tmp_path: Path) -> None:
    sheets = {
        "/": Sheet('<a href="/ok/slow"></a>'),
        "/ok/slow": Sheet(status=302, headers=[("Location", LONG)]),
    }
    async with serving_written(sheets) as site:
        start = f"http://{site.authorities[0]}/"
        env = {"SHOAL_PARSE_CPU": "300", "SHOAL_PARSE_WALL": "300", "SHOAL_CRAWL_GRACE": "1"}
        with started("crawl", start, "--follow", SLOW, *QUICK, "--quiet", cwd=tmp_path, env=env) as crawl:
            while "/ok/slow" not in {hit.path for hit in await site.hits()}:
                assert crawl.poll() is None
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            crawl.send_signal(signal.SIGINT)
            assert crawl.wait(30) == 3
