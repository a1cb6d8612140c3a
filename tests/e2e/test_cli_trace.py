"""`shoal trace` after a crawl of a shop with a page that fails at first, one that is gone and one that moved."""

from pathlib import Path

from tests.e2e.command import HASTY, QUICK, records, shoal


def test_a_url_is_followed_from_where_it_was_found_to_what_it_brought(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, "--out", "items.jsonl", "--quiet", cwd=tmp_path, env=HASTY)
    urls = [item["url"] for item in records(tmp_path / "items.jsonl")]

    [seed] = shoal("trace", shop, "--json", cwd=tmp_path).json["traces"]
    assert (seed["state"], seed["found_on"], seed["failed_attempts"]) == ("done", None, [])
    [last] = shoal("trace", urls[-1], "--json", cwd=tmp_path).json["traces"]
    assert last["found_on"]["url"] in urls
    assert last["page"]["items"] == 1
    assert last["page"]["elapsed_s"] > 0
    assert last["page"]["bytes"] > 0
    assert shoal("trace", last["trace"], cwd=tmp_path).out.startswith(urls[-1])

    missing = shoal("trace", f"{shop}no-such-page", cwd=tmp_path)
    assert missing.code == 1
    assert "was never accepted" in missing.complaint


def test_failed_attempts_are_remembered(shop: str, tmp_path: Path) -> None:
    """The page that fails the first time is given up without retries, then replayed."""
    shoal("crawl", shop, *QUICK, "--quiet", cwd=tmp_path, env={"SHOAL_RETRY_MAX_RETRIES": "0"})
    [letter] = shoal("dlq", "list", "--json", cwd=tmp_path).json["dead_letters"]
    [dead] = shoal("trace", letter["url"], "--json", cwd=tmp_path).json["traces"]
    assert (dead["state"], dead["class"]) == ("dead", "target_error")
    shoal("dlq", "replay", "--yes", cwd=tmp_path)
    shoal("crawl", shop, *QUICK, "--quiet", cwd=tmp_path)

    [trace] = shoal("trace", letter["url"], "--json", cwd=tmp_path).json["traces"]
    [tried] = trace["failed_attempts"]
    assert (tried["class"], tried["status"], trace["state"]) == ("target_error", 503, "done")
    assert tried["elapsed_s"] > 0
