"""`shoal crawl`, from the first page to the exit code, against the demo's shop."""

import csv
import json
import re
from pathlib import Path

from tests.e2e.command import DONE, HASTY, NO_RETRIES, PAGES, QUICK, records, shoal


def test_a_url_is_enough(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, *QUICK, cwd=tmp_path, env=HASTY)

    assert ran.code == 0, ran.err
    assert re.match(rf"Finished: {DONE} pages and {PAGES} items in ", ran.out)
    assert "Next: shoal verify --store shoal-data" in ran.out
    [items] = re.findall(r"^  items +(.+)$", ran.out, re.MULTILINE)
    found = records(tmp_path / items)
    assert len({record["url"] for record in found}) == len(found) == PAGES
    assert set(found[0]) == {"url", "status", "title", "depth", "fetched_at", "links"}


def test_the_same_command_resumes_to_the_same_end_and_fresh_starts_again(shop: str, tmp_path: Path) -> None:
    first = shoal("crawl", shop, *QUICK, "--out", "items.jsonl", cwd=tmp_path, env=HASTY)
    before = (tmp_path / "items.jsonl").read_bytes()
    again = shoal("crawl", shop, *QUICK, "--out", "items.jsonl", cwd=tmp_path)
    after = (tmp_path / "items.jsonl").read_bytes()
    fresh = shoal("crawl", shop, *QUICK, "--out", "items.jsonl", "--fresh", cwd=tmp_path)

    assert first.code == again.code == fresh.code == 0
    assert first.err.startswith("shoal: starting crawl")
    assert again.out.startswith("Nothing to do: crawl 127.0.0.1:")
    assert after == before
    assert "shoal: starting crawl" in fresh.err
    assert fresh.out.startswith(f"Finished: {DONE} pages")
    assert len(records(tmp_path / "items.jsonl")) == PAGES
    for ran in (first, fresh):
        assert "shoal: items go to items.jsonl\nshoal: pages go to shoal-data/archive/" in ran.err


def test_fields_by_selector_need_no_code(shop: str, tmp_path: Path) -> None:
    options = ("--follow", "/category/nets/$|/product/", "--item", "name=h1", "--item", "price=.price")
    ran = shoal("crawl", shop, *QUICK, *options, "--out", "shop.jsonl", cwd=tmp_path, env=HASTY)

    assert ran.code == 0, ran.err
    found = {record["url"].removeprefix(shop): record for record in records(tmp_path / "shop.jsonl")}
    record = found["product/plain-cast-net.html"]
    assert record == {"url": f"{shop}product/plain-cast-net.html", "name": "Plain Cast Net", "price": "£2.50"}


def test_one_crawl_can_write_several_formats(shop: str, tmp_path: Path) -> None:
    outputs = ("--out", "a.jsonl", "--out", "b.csv")
    ran = shoal("crawl", shop, *QUICK, "--depth", "1", "--item", "name=h1", *outputs, cwd=tmp_path)

    assert ran.code == 0, ran.err
    as_json = records(tmp_path / "a.jsonl")
    with (tmp_path / "b.csv").open(newline="") as file:
        as_csv = list(csv.DictReader(file))
    assert as_csv == as_json
    assert len(as_json) == 2


def test_items_on_standard_output_are_not_mixed_with_messages(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, *QUICK, "--depth", "1", "--out", "-", cwd=tmp_path)

    assert ran.code == 0, ran.err
    assert [json.loads(line)["title"] for line in ran.out.splitlines()] == [
        "The Harbour Shop",
        "Nets and lines",
    ]
    assert "shoal: items go to standard output" in ran.err
    assert "Finished: " in ran.err


def test_json_is_one_object_and_nothing_else(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, *QUICK, "--json", cwd=tmp_path, env=HASTY)

    assert (ran.code, ran.err) == (0, "")
    summary = ran.json
    assert summary["ending"] == "finished"
    assert summary["resumed"] is False
    assert (summary["pages"], summary["items"]) == (DONE, PAGES)
    assert summary["counts"]["done"] == DONE
    assert summary["counts"]["gone"] == 1
    assert summary["failures"] == {"target_error": 1}
    assert summary["counts"]["waiting"] == summary["counts"]["dead"] == 0
    assert summary["filtered"]["robots"] > 0
    assert (tmp_path / summary["outputs"][0]).exists()


def test_quiet_prints_nothing_on_success(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, *QUICK, "--max-pages", "10", "--quiet", cwd=tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_max_pages_stops_early_and_a_larger_one_resumes(shop: str, tmp_path: Path) -> None:
    first = shoal("crawl", shop, *QUICK, "--max-pages", "20", "--json", cwd=tmp_path, env=HASTY)
    assert (first.code, first.json["ending"]) == (0, "limited")
    assert first.json["counts"]["done"] == 20

    second = shoal("crawl", shop, *QUICK, "--json", cwd=tmp_path, env=HASTY)
    assert (second.code, second.json["ending"]) == (0, "finished")
    assert second.json["counts"]["done"] == DONE
    assert second.json["pages"] == DONE - 20


def test_dead_letters_above_the_allowed_number_have_an_exit_code(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, *QUICK, "--max-dead", "0", "--json", cwd=tmp_path, env=NO_RETRIES)

    assert ran.code == 2
    assert ran.json["dead_by_class"] == {"target_error": 1}
    assert ran.json["ending"] == "finished"


def test_dead_letters_are_listed_replayed_and_fetched(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, *QUICK, cwd=tmp_path, env=NO_RETRIES)
    assert ran.code == 0
    assert "Next: shoal dlq list --store shoal-data" in ran.out

    [letter] = shoal("dlq", "list", "--class", "target_error", "--json", cwd=tmp_path).json["dead_letters"]
    assert (letter["class"], letter["status"], letter["attempts"]) == ("target_error", 503, 1)
    listed = shoal("dlq", "list", "--host", letter["host"], "--limit", "1", cwd=tmp_path).out
    assert letter["url"] in listed
    assert letter["reason"] in listed
    assert shoal("dlq", "list", "--class", "dns", cwd=tmp_path).out == "no dead letters\n"

    assert shoal("dlq", "replay", "--yes", cwd=tmp_path).out.startswith("1 request put back")
    after = shoal("crawl", shop, *QUICK, "--json", cwd=tmp_path, env=NO_RETRIES).json
    assert (after["counts"]["dead"], after["counts"]["done"]) == (0, DONE)


def test_flags_beat_the_environment_which_beats_the_file(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text(
        'store = "mine"\n[crawl]\nmax_pages = 5\nrate = 0\nallow_private = true\nper_host = 1\n'
    )
    env = {"SHOAL_CRAWL_MAX_PAGES": "7", "SHOAL_CRAWL_PER_HOST": "2"}

    ran = shoal("crawl", shop, "--max-pages", "9", "--json", cwd=tmp_path, env=env)

    assert ran.code == 0, ran.err
    assert ran.json["counts"]["done"] == 9
    assert ran.json["store"] == "mine"
    assert (tmp_path / "mine").is_dir()


def test_private_addresses_are_refused_unless_allowed(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, "--rate", "0", cwd=tmp_path)
    assert ran.code == 10
    assert "refused" in ran.err.splitlines()[-1]


def test_locale_and_time_zone_do_not_change_the_items(shop: str, tmp_path: Path) -> None:
    strange = {
        "LC_ALL": "C",
        "LANG": "C",
        "TERM": "dumb",
        "TZ": "Asia/Tokyo",
        "NO_COLOR": "1",
        "COLUMNS": "20",
    }
    options = (*QUICK, "--item", "name=h1", "--item", "price=.price", "--out", "items.jsonl")
    extracted = []
    for folder, env in (("plain", HASTY), ("strange", {**HASTY, **strange})):
        (tmp_path / folder).mkdir()
        ran = shoal("crawl", shop, *options, cwd=tmp_path / folder, env=env)
        assert ran.code == 0, ran.err
        extracted.append(sorted((tmp_path / folder / "items.jsonl").read_bytes().splitlines()))
    assert extracted[0] == extracted[1]
    assert len(extracted[0]) == PAGES
