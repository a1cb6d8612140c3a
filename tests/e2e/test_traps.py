"""Sites without an end: a crawl of them ends, says what it left out, and loses nothing that is there."""

from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from tests.e2e.command import QUICK, records, shoal
from tests.site.maze import BOOKS, NUMBERED
from tests.site.server import serving


async def test_pages_that_all_look_alike_lead_nowhere_and_others_of_the_site_are_found(
    tmp_path: Path,
) -> None:
    env = {"SHOAL_LINKS_NEAR_DUPLICATES": "200"}
    async with serving("tests.site.maze:build", "", hosts=1) as site:
        host = site.authorities[0]
        ran = shoal(
            *("crawl", f"http://{host}/", *QUICK, "--out", "items.jsonl", "--json"), cwd=tmp_path, env=env
        )
        fetched = Counter(hit.path for hit in await site.hits() if hit.path != "/robots.txt")

    assert ran.code == 0, ran.err
    assert ran.err.count("pages.near_duplicates") == 1
    # Pages are sampled by fingerprint, and that depends on the port: some 320 pages are expected until it shows.
    assert 64 < sum(path.startswith("/maze/") for path in fetched) < 4_000
    assert {path for path in fetched if path.startswith("/book/")} == {f"/book/{n + 1}" for n in range(BOOKS)}
    kept = Counter(urlsplit(item["url"]).path for item in records(tmp_path / "items.jsonl"))
    assert kept == fetched
    [pattern] = ran.json["near_duplicates"]
    assert (pattern["pattern"], pattern["more_than"]) == (f"{host}/maze/0", 200)
    [status] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert status["near_duplicates"] == [pattern]
    assert status["links_filtered_by_rule"] == {"trap": ran.json["filtered"]["trap"]}
    told = f"near-duplicates in {host}: {host}/maze/0: more than 200 near-duplicate pages, such as http://{host}/maze/"
    assert told in shoal("status", cwd=tmp_path).out


async def test_a_pattern_with_too_many_urls_is_quarantined_named_and_can_be_let_in(tmp_path: Path) -> None:
    async with serving("tests.site.maze:build", "", hosts=1) as site:
        host = site.authorities[0]
        crawl = ("crawl", f"http://{host}/numbers", "--crawl", "numbers", *QUICK, "--json")
        kept_out = shoal(*crawl, cwd=tmp_path, env={"SHOAL_LINKS_PER_PATTERN": "640"})
        status = shoal("status", cwd=tmp_path).out
        let_in = shoal(*crawl, "--fresh", cwd=tmp_path)

    assert kept_out.code == let_in.code == 0, kept_out.err + let_in.err
    assert kept_out.json["filtered"] == {"trap": NUMBERED}
    assert "links.quarantined" in kept_out.err
    told = f"quarantined in numbers: {host}/number/0: more than 640 URLs in an hour, such as http://{host}/number/"
    assert told in status
    assert let_in.json["counts"]["done"] == NUMBERED + 1
    assert (let_in.json["filtered"], let_in.json["quarantined"]) == ({}, [])


async def test_what_a_host_brings_beyond_its_budget_is_counted_like_every_other_rule(tmp_path: Path) -> None:
    async with serving("tests.site.maze:build", "", hosts=1) as site:
        start = f"http://{site.authorities[0]}/numbers"
        crawl = ("crawl", start, "--crawl", "numbers", *QUICK)
        ran = shoal(*crawl, "--json", cwd=tmp_path, env={"SHOAL_LINKS_PER_HOST": "50"})

    assert ran.code == 0, ran.err
    assert ran.json["filtered"] == {"budget": NUMBERED + 1 - 50}
    assert f"skipped in numbers: budget {NUMBERED + 1 - 50:,}" in shoal("status", cwd=tmp_path).out
