"""Item hooks change, check and drop items; dropped items are counted by reason."""

from typing import Any

import msgspec
import pytest
from tests.unit.spider.pages import task

import shoal
from shoal.model.crawl_totals import MAX_REASONS, OTHER_REASONS, CrawlTotals, tally_of
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Done
from shoal.model.page import PageRecord, PageRef, ParseResult
from shoal.model.scope import Scope
from shoal.spider.item_hooks import MAX_REASONS as MAX_PAGE_REASONS
from shoal.spider.run import run
from shoal.testing import HandlerFailed, failed, page_from
from shoal.testing import run as run_handler


def spider_of(items: list[dict[str, Any]]) -> shoal.Spider:
    spider = shoal.Spider("shop", "https://shop.example/")

    @spider.page
    def page(page: shoal.Page) -> list[dict[str, Any]]:
        return items

    return spider


def parsed(spider: shoal.Spider) -> ParseResult:
    return run(spider, task("<p>", url="https://shop.example/"), scope=Scope())


def test_hooks_run_in_order_and_what_the_last_returns_is_written() -> None:
    spider = spider_of([{"price": "1"}])

    @spider.item
    def number(item: dict[str, Any]) -> dict[str, Any]:
        return {"price": float(item["price"])}

    @spider.item
    def with_url(item: dict[str, Any], page: shoal.Page) -> dict[str, Any]:
        return {**item, "url": page.url}

    items = run_handler(spider, page_from("<p>", url="https://shop.example/a")).items
    assert items == [{"price": 1.0, "url": "https://shop.example/a"}]


def test_dropped_items_are_counted_by_reason_and_change_no_other_key() -> None:
    items = [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
    spider = spider_of(items)
    keys = [item.key for item in parsed(spider).items]

    @spider.item
    def odd(item: dict[str, int]) -> dict[str, int] | None:
        if item["n"] == 4:
            return None
        if item["n"] % 2 == 0:
            raise shoal.Drop("even \n number")
        return item

    result = parsed(spider)
    assert [msgspec.json.decode(item.json) for item in result.items] == [{"n": 1}, {"n": 3}]
    assert [item.key for item in result.items] == [keys[0], keys[2]]
    assert result.discarded == {"even number": 1, "odd returned None": 1}


def test_a_hook_that_raises_anything_else_is_a_fault_of_the_page() -> None:
    spider = spider_of([{"n": 1}])

    @spider.item
    def wrong(item: dict[str, int]) -> Any:
        return item["price"]

    with pytest.raises(HandlerFailed, match="KeyError"):
        run_handler(spider, page_from("<p>"))


def test_a_hook_that_returns_no_item_is_a_fault_that_names_it() -> None:
    spider = spider_of([{"n": 1}])
    spider.item(lambda item: 7)
    with pytest.raises(HandlerFailed, match="must return an item, not a int"):
        run_handler(spider, page_from("<p>"))


def test_items_of_error_hooks_pass_the_item_hooks_too() -> None:
    spider = spider_of([])

    @spider.on_error
    def gone(request: shoal.FailedRequest) -> dict[str, Any]:
        return {"url": request.url}

    @spider.item
    def attempts(item: dict[str, Any], request: shoal.FailedRequest) -> dict[str, Any]:
        return {**item, "attempts": request.attempts}

    assert run_handler(spider, failed("gone", attempts=2)).items[0]["attempts"] == 2


def test_a_function_that_cannot_take_an_item_is_refused_at_once() -> None:
    spider = spider_of([])
    with pytest.raises(Misconfigured, match="must take the item"):
        spider.item(lambda: None)


def test_reasons_without_end_are_counted_together() -> None:
    spider = spider_of([{"n": n} for n in range(100)])

    @spider.item
    def each(item: dict[str, int]) -> Any:
        raise shoal.Drop(f"{item['n']} is wrong {'x' * 1000}")

    result = parsed(spider)
    assert len(result.discarded) == MAX_PAGE_REASONS + 1
    assert sum(result.discarded.values()) == 100

    totals = CrawlTotals()
    outcome = Done(PageRecord(PageRef("s", 0, 1), 200, 0.0))
    for page in range(10):
        counted = {f"page {page} reason {n}": 1 for n in range(20)}
        totals.add(totals.bounded(tally_of(outcome, ParseResult(1, discarded=counted))))
    assert len(totals.discarded) == MAX_REASONS + 1
    assert totals.discarded[OTHER_REASONS] == 10 * 20 - MAX_REASONS
    assert CrawlTotals.load(totals.dump()).discarded == totals.discarded
