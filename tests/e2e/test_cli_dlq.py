"""`shoal dlq`: dead letters are listed, exported and deleted."""

from pathlib import Path

from tests.e2e.command import NO_RETRIES, QUICK, records, shoal


def test_a_letter_is_shown_exported_and_deleted(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, "--quiet", cwd=tmp_path, env=NO_RETRIES)
    [letter] = shoal("dlq", "list", "--newer", "1h", "--json", cwd=tmp_path).json["dead_letters"]

    shown = shoal("dlq", "show", letter["url"], cwd=tmp_path).out
    assert letter["trace"] in shown
    assert "503" in shown
    assert shoal("dlq", "show", letter["trace"], "--json", cwd=tmp_path).json["dead_letters"] == [letter]
    missing = shoal("dlq", "show", "http://nowhere.test/", cwd=tmp_path)
    assert missing.code == 1
    assert "shoal dlq list shows all of them" in missing.complaint

    assert shoal("dlq", "export", "--match", letter["url"], cwd=tmp_path).json == letter
    told = shoal("dlq", "export", "--out", "letters.jsonl", "--json", cwd=tmp_path).json
    assert told == {"store": "shoal-data", "exported": 1, "out": "letters.jsonl"}
    assert records(tmp_path / "letters.jsonl") == [letter]

    for command in ("replay", "purge"):
        unconfirmed = shoal("dlq", command, cwd=tmp_path)
        assert unconfirmed.code == 1
        assert "1 dead letter of shoal-data" in unconfirmed.complaint
        assert "pass --yes" in unconfirmed.complaint
    assert shoal("dlq", "purge", "--older", "1h", cwd=tmp_path).out == "0 dead letters deleted\n"
    assert shoal("dlq", "purge", "--yes", "--json", cwd=tmp_path).json["purged"] == 1
    assert shoal("dlq", "list", cwd=tmp_path).out == "no dead letters\n"
    [crawl] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert crawl["dead_by_class"] == {"target_error": 1}
    assert shoal("verify", cwd=tmp_path).code == 0
