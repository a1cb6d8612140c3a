"""`-v` and `-vv`, and what a spider that fails leaves for its author."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.command import HASTY, PAGES, QUICK, Ran, shoal

BROKEN = """
import logging
import shoal

spider = shoal.Spider("shop", "{shop}", key="sku")


@spider.page(r"/product/plain-cast-net")
def broken(page):
    print("at", page.url)
    logging.getLogger("shop.prices").error("no price")
    yield {{"sku": price(page)}}


def price(page):
    return float(page.css(".cost::text").get("none"))


@spider.page()
def rest(page):
    yield {{"sku": page.url, "title": page.css("h1::text").get()}}
    yield page.links("a")
    yield page.links("a")
    yield shoal.Request(url="https://elsewhere.example/")
"""


def events(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]


def test_every_request_has_a_line_with_what_became_of_it(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(BROKEN.format(shop=shop))
    flags = ("-vv", "--log-format", "json", "--store", "s")

    ran = shoal("crawl", "shop.py", *QUICK, *flags, cwd=tmp_path, env=HASTY)

    assert ran.code == 0, ran.err
    found = events(ran)
    by_event: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        by_event.setdefault(one["event"], []).append(one)
    assert len(by_event["request.done"]) == PAGES
    first, second, *_ = by_event["request.done"]
    assert first["url"] == shop
    assert "from" not in first
    assert second["from"] == shop
    assert second["bytes"] > 0
    [moved] = by_event["request.redirected"]
    assert (moved["status"], moved["to"]) == (301, f"{shop}category/nets/")
    [busy] = by_event["request.retried"]
    assert (busy["status"], busy["failure"]) == (503, "target_error")
    assert busy["retry_in_s"] >= 0
    assert by_event["request.gone"][0]["status"] == 404
    assert {one["rule"] for one in by_event["request.filtered"]} == {"robots"}
    assert json.loads(by_event["item.found"][0]["item"])["title"]
    assert {one["rule"] for one in by_event["link.skipped"]} == {"duplicate", "scope"}
    assert {"url": "https://elsewhere.example/", "rule": "scope", "from": shop}.items() <= by_event[
        "link.skipped"
    ][[one["url"] for one in by_event["link.skipped"]].index("https://elsewhere.example/")].items()


def test_a_spider_that_raises_is_named_with_url_and_own_line_and_its_traceback_is_kept(
    shop: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(BROKEN.format(shop=shop))
    flags = ("--log-format", "json", "--store", "s")

    ran = shoal("crawl", "shop.py", *QUICK, *flags, cwd=tmp_path, env=HASTY)

    url = f"{shop}product/plain-cast-net.html"
    [failed] = [one for one in events(ran) if one["event"] == "page.parse_error"]
    assert failed["url"] == url
    assert failed["traceback"].startswith("shop.py:16 in price: return float(")
    assert "line 12, in broken" in failed["traceback"]
    [printed] = [one for one in events(ran) if one["event"] == "spider.output"]
    assert (printed["level"], printed["line"]) == ("info", f"at {url}")
    [logged] = [one for one in events(ran) if one["event"] == "spider.log"]
    assert (logged["level"], logged["logger"], logged["line"]) == ("error", "shop.prices", "no price")
    shown = shoal("dlq", "show", url, "--store", "s", cwd=tmp_path)
    assert "  traceback\n    shop.py:16 in price: return float(" in shown.out
    [letter] = shoal("dlq", "show", url, "--store", "s", "--json", cwd=tmp_path).json["dead_letters"]
    assert letter["traceback"] == failed["traceback"]
    assert letter["reason"] == "ValueError: could not convert string to float: 'none' (shop.py:16)"


def test_a_fleet_shows_the_requests_of_its_workers_and_keeps_tracebacks(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(BROKEN.format(shop=shop))

    ran = shoal("fleet", "-n", "2", "shop.py", *QUICK, "-v", "--log-format", "json", cwd=tmp_path, env=HASTY)

    assert ran.code == 0, ran.err
    done = [one for one in events(ran) if one["event"] == "request.done"]
    assert len({one["url"] for one in done}) == len(done) == PAGES
    [failed] = [one for one in events(ran) if one["event"] == "page.parse_error"]
    url = f"{shop}product/plain-cast-net.html"
    [letter] = shoal("dlq", "show", url, "--json", cwd=tmp_path).json["dead_letters"]
    assert letter["traceback"] == failed["traceback"]
    assert letter["reason"].endswith("(shop.py:16)")
    [crawl] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert crawl["retries"] == 1
    assert crawl["duplicates"] > PAGES
    assert "1 attempt repeated after a failure" in ran.out


def test_duplicates_and_retries_are_counted_in_summary_status_and_json(shop: str, tmp_path: Path) -> None:
    ran = shoal("crawl", shop, *QUICK, "--json", cwd=tmp_path, env=HASTY)

    assert ran.json["retries"] == 1
    assert ran.json["duplicates"] > PAGES  # every page links to the home page
    [crawl] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert (crawl["retries"], crawl["duplicates"]) == (1, ran.json["duplicates"])
    printed = shoal("status", cwd=tmp_path).out
    assert f"1 retry, {ran.json['duplicates']} duplicate links" in printed
    again = shoal("crawl", shop, *QUICK, "--json", cwd=tmp_path).json
    assert (again["retries"], again["duplicates"]) == (0, 0)  # of this run
