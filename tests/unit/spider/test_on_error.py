"""Hooks: which one a failure goes to, and the arguments of `on_error`."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.spider.pages import task

from shoal.model.errors import Misconfigured
from shoal.model.failure import POLICY, Action, FailureClass
from shoal.model.page import FinalFailure, ParseResult
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.spider.failed import FailedRequest
from shoal.spider.run import run
from shoal.spider.source import describe
from shoal.spider.spider import Spider
from shoal.testing import HandlerFailed, failed
from shoal.testing import run as run_here

RULES = [kind.value for kind, policy in POLICY.items() if policy.action is Action.FILTER]


def named(spider: Spider) -> dict[str, str]:
    return {kind.value: hook.name for kind, hook in spider.hooks.items()}


def spider_with(*kinds: str, yields: Any = None, **options: Any) -> Spider:
    spider = Spider("s")

    @spider.on_error(*kinds, **options)
    def hook(failed: FailedRequest) -> Any:
        return yields(failed) if callable(yields) else yields

    return spider


def run_hook(spider: Spider, kind: FailureClass = FailureClass.TIMEOUT) -> ParseResult:
    request = task("").request
    end = FinalFailure(kind, "it took too long", 4)
    failing = type(task(""))(7, 0xABC, request, request.url, 0, (), b"", 0.0, end)
    return run(spider, failing, scope=Scope())


def test_a_hook_takes_the_classes_it_names_and_one_without_takes_the_others() -> None:
    spider = Spider("s")

    @spider.on_error
    def rest(failed: FailedRequest) -> None: ...

    @spider.on_error("timeout", "anti_bot")
    def slow(failed: FailedRequest) -> None: ...

    found = named(spider)
    assert (found["timeout"], found["anti_bot"], found["gone"]) == ("slow", "slow", "rest")
    assert set(found) == {kind.value for kind in FailureClass} - set(RULES)
    assert describe(spider).hooks == frozenset(spider.hooks)


def test_the_order_of_hooks_makes_no_difference() -> None:
    spider = Spider("s")
    spider.on_error("gone")(lambda failed: None)
    spider.on_error()(repr)
    assert (named(spider)["gone"], named(spider)["dns"]) == ("<lambda>", "repr")


def test_two_hooks_for_one_class_are_refused() -> None:
    with pytest.raises(Misconfigured, match="two on_error hooks take 'gone'"):
        spider_with("gone").on_error("dns", "gone")(repr)
    with pytest.raises(Misconfigured, match="two on_error hooks name no failure class"):
        spider_with().on_error(repr)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("time_out", "'time_out' is not a failure class; did you mean 'timeout'?"),
        ("robots", "'robots' is not a failure class; it is a rule that filters requests"),
        (404, "404 is not a failure class"),
    ],
)
def test_an_unknown_failure_class_is_refused(kind: Any, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=re.escape(complaint)):
        spider_with(kind)


def test_a_hook_yields_like_a_handler_and_its_items_have_other_keys_than_a_pages() -> None:
    result = run_hook(
        spider_with(
            yields=lambda failed: [
                {"url": failed.url, "class": failed.failure_class, "attempts": failed.attempts},
                failed.request,
                type(failed.request)(url="https://mirror.example/"),
            ]
        )
    )
    assert [item.key for item in result.items] == ["3f3eecc54351ffdc-timeout-0"]
    assert result.items[0].json.endswith(b'"class":"timeout","attempts":4}')
    assert [unpack(packed).url for packed in result.requests][-1] == "https://mirror.example/"


def test_keys_and_models_are_those_of_the_hook() -> None:
    @dataclass
    class Missing:
        url: str

    [item] = run_hook(spider_with(yields={"url": "u"}, key="url")).items
    assert item.key == "u"
    checked = spider_with(yields={"url": 1.5}, item=Missing)
    assert len(run_hook(checked).rejected) == 1
    assert describe(checked).models


def test_a_class_without_a_hook_yields_nothing() -> None:
    assert run_hook(spider_with("gone", yields={"n": 1})).items == ()


def test_what_a_hook_raises_is_a_fault() -> None:
    fault = run_hook(spider_with(yields=lambda failed: {}[failed.url])).fault
    assert fault is not None
    assert fault.reason.startswith("KeyError: 'https://books.example/")


def test_a_hook_is_tested_without_a_crawl() -> None:
    spider = spider_with("gone", yields=lambda failed: {"sku": failed.data["sku"], "status": failed.status})
    items, requests = run_here(spider, failed("gone", status=410, data={"sku": 7}))
    assert (items, requests) == ([{"sku": 7, "status": 410}], [])
    with pytest.raises(HandlerFailed, match="KeyError"):
        run_here(spider, failed("gone"))


def test_kind_is_a_deprecated_name_of_the_failure_class() -> None:
    request = FailedRequest(Request(url="https://a.example/"), FailureClass.TIMEOUT, "no response")
    with pytest.warns(DeprecationWarning, match="failure_class"):
        assert request.kind == "timeout"
