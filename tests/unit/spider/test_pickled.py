"""Spiders by value: what is sent to a parse process, and what cannot be."""

import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec
import pytest

from shoal.model.errors import Misconfigured
from shoal.model.request import Request
from shoal.spider.pickled import PickledSpider, pickle_spider, running_python, unpickle_spider
from shoal.spider.source import describe, load
from shoal.spider.spider import Spider

CODE = """
from dataclasses import dataclass
import re
import shoal

PREFIX = "{prefix}"
number = re.compile("[0-9]+")

@dataclass
class Found:
    title: str

def clean(text):
    return PREFIX + text

spider = shoal.Spider("cells", start="https://a.test/", rate=3)

@spider.page(r"/book/", key="title", item=Found)
def book(page):
    yield {{"title": clean(page), "of": spider.name, "n": number.sub("", "a1")}}

@spider.on_error("timeout")
def lost(failed):
    yield {{"title": "lost"}}
"""


def cell(prefix: str = "t:", name: str = "<cell 1>") -> Spider:
    """Return a spider that was defined as a notebook defines it: in no module that could be imported."""
    module = ModuleType("__main__")
    exec(compile(CODE.format(prefix=prefix), name, "exec"), module.__dict__)
    spider = module.spider
    assert isinstance(spider, Spider)
    return spider


def test_a_copy_is_complete_without_the_program() -> None:
    spider = cell()
    copy = unpickle_spider(pickle_spider(spider))

    assert copy is not spider
    assert describe(copy) == describe(spider)
    route = copy.route_for(Request(url="https://a.test/book/1"), "https://a.test/book/1")
    assert route is not None
    assert list(route.handler("x")) == [{"title": "t:x", "of": "cells", "n": "a"}]  # type: ignore[call-overload]
    assert route.check is not None
    assert vars(route.check({"title": "x"})) == {"title": "x"}


def test_the_version_changes_with_the_code_and_with_nothing_else() -> None:
    version = pickle_spider(cell()).version

    assert pickle_spider(cell(name="/tmp/ipykernel_7/1.py")).version == version
    assert pickle_spider(cell(prefix="u:")).version != version
    assert load(pickle_spider(cell())).version == load(pickle_spider(cell(name="<other>"))).version


def test_a_spider_of_a_module_is_sent_by_name() -> None:
    spider = Spider("named", start="https://a.test/")
    spider.page()(module_handler)

    assert b"module_handler" in (packed := pickle_spider(spider).payload)
    assert len(packed) < 1000  # no code


def module_handler(page: object) -> Iterator[object]:
    yield {"page": page}


def test_a_model_that_cannot_be_copied_is_refused() -> None:
    spider = Spider("modelled", start="https://a.test/")
    namespace: dict[str, Any] = {"msgspec": msgspec}
    exec("class Found(msgspec.Struct):\n    title: str\n", {"__name__": "__main__"} | namespace, namespace)
    spider.page(item=namespace["Found"])(module_handler)

    with pytest.raises(
        Misconfigured, match="the model Found is defined in this program, and only dataclasses"
    ):
        pickle_spider(spider)


def test_code_of_another_python_is_refused_before_it_is_loaded() -> None:
    with pytest.raises(Misconfigured, match=rf"sent by Python 2\.7, and this is Python {running_python()}"):
        unpickle_spider(PickledSpider("old", b"not even a pickle", "2.7", ""))


@pytest.mark.parametrize(
    ("payload", "text"),
    [(b"\x80\x05broken", "cannot be loaded in a parse process"), (pickle.dumps([1]), "not a Spider")],
)
def test_what_is_not_a_spider_is_refused(payload: bytes, text: str) -> None:
    with pytest.raises(Misconfigured, match=text):
        unpickle_spider(PickledSpider("odd", payload, running_python(), ""))


def test_data_that_is_too_large_is_refused() -> None:
    spider = Spider("large", start="https://a.test/")
    table = b"x" * (9 << 20)

    @spider.page()
    def page(page: object) -> Iterator[object]:
        yield {"size": len(table)}

    with pytest.raises(Misconfigured, match="use 9 MiB of data of this program, and 8 MiB can be sent"):
        pickle_spider(spider)
