"""`shoal urls`: the URLs of a crawl by state, in a folder and in a fleet."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import HASTY, QUICK, Ran, shoal

BROKEN = """
import shoal

spider = shoal.Spider("shop", "{shop}")


@spider.page(r"/product/plain-cast-net")
def broken(page):
    yield 1 / 0


@spider.page()
def rest(page):
    yield page.links("a")
"""


def listed(ran: Ran) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


@pytest.mark.parametrize("runs", [("crawl",), ("fleet", "-n", "1")], ids=["folder", "fleet"])
def test_every_url_is_listed_in_its_state_or_counted(
    shop: str, tmp_path: Path, runs: tuple[str, ...]
) -> None:
    (tmp_path / "shop.py").write_text(BROKEN.format(shop=shop))
    assert shoal(*runs, "shop.py", *QUICK, "--quiet", cwd=tmp_path, env=HASTY).code == 0
    [crawl] = shoal("status", "--json", cwd=tmp_path).json["crawls"]

    ran = shoal("urls", "--json", cwd=tmp_path)
    found = listed(ran)

    by_state = Counter(one["state"] for one in found)
    folder = runs == ("crawl",)
    kept = ("done", "gone", "dead", "filtered") if folder else ("done", "dead")
    assert by_state == {state: crawl["counts"][state] for state in kept}
    assert len({one["url"] for one in found}) == len(found)
    [dead] = [one for one in found if one["state"] == "dead"]
    assert dead["url"] == f"{shop}product/plain-cast-net.html"
    assert (dead["class"], dead["status"], dead["attempts"]) == ("parse_error", 200, 1)
    if folder:
        assert ran.err == ""
        [gone] = listed(shoal("urls", "--state", "gone", "--json", cwd=tmp_path))
        assert (gone["url"], gone["status"]) == (f"{shop}product/lost-nets.html", 404)
        skipped = listed(shoal("urls", "--state", "filtered", "--json", cwd=tmp_path))
        assert {one["class"] for one in skipped} == {"robots"}
        assert all(one["url"].startswith(f"{shop}cart/") for one in skipped)
    else:
        assert f"skipped {crawl['counts']['filtered']}" in ran.err
        assert "gone 1" in ran.err
        assert "has not kept their URLs" in ran.err


def test_waiting_urls_can_be_chosen_by_host_pattern_age_and_number(shop: str, tmp_path: Path) -> None:
    limited = ("--max-pages", "5", "--quiet")
    assert shoal("crawl", shop, *QUICK, *limited, cwd=tmp_path, env=HASTY).code == 0
    [crawl] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    host = shop.removeprefix("http://").rstrip("/")

    waiting = listed(shoal("urls", "--state", "waiting", "--host", host, "--json", cwd=tmp_path))
    assert len(waiting) == crawl["counts"]["waiting"] + crawl["counts"]["delayed"]
    assert listed(shoal("urls", "--host", "other.example", "--json", cwd=tmp_path)) == []
    products = listed(shoal("urls", "--match", "/product/", "--json", cwd=tmp_path))
    assert products
    assert all("/product/" in one["url"] for one in products)
    assert len(listed(shoal("urls", "--limit", "3", "--json", cwd=tmp_path))) == 3
    recent = listed(shoal("urls", "--state", "done", "--since", "1h", "--json", cwd=tmp_path))
    assert len(recent) == 5
    text = shoal("urls", "--state", "done", cwd=tmp_path).out.splitlines()
    assert sum(f"done         200   1  {shop}" in line for line in text) >= 4


def test_an_unknown_state_is_refused_by_name(tmp_path: Path) -> None:
    ran = shoal("urls", "--state", "lost", cwd=tmp_path)
    assert ran.code == 1
    assert ran.complaint.startswith("--state 'lost': must be one of waiting, to-retry, in-progress, done")
