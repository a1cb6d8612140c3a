"""The spider of the hostile crawls: it believes what pages say, and does what their addresses tell it to."""

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

from tests.crash import nasty_spider as nasty

import shoal
from shoal.spider.spider import SITEMAP

spider = shoal.Spider("hostile")

CYCLE: list[Any] = []
CYCLE.append(CYCLE)

ITEMS: dict[str, dict[Any, Any]] = {
    "many": {f"f{n}": n for n in range(10_000)},
    "class": {"__class__": "x", "__init__": "y"},
    "empty": {"": 1},
    "number": {1: "x"},
    "cyclic": {"loop": CYCLE},
    "nan": {"price": float("nan")},
    "integer": {"big": 2**70},
    "extremes": {"first": datetime.min, "last": date.max},
    "cells": {
        "a": "=cmd|' /C calc'!A0",
        "b": "+1",
        "c": "-2+3",
        "d": "@x",
        "e": "\t=1",
        "f": "\r=1",
        "g": "\u00a0=1",
        "h": "＝1",
        "i": "line\n=1",
        "j": 'quote " comma , end',
        "k": "nul\0",
    },
}


@spider.page(r"/deed/")
def deed(page: shoal.Page) -> Iterator[Any]:
    name = page.url.rsplit("/", 1)[1].partition("?")[0]
    yield {"url": page.url, "before": name}
    yield from getattr(nasty, f"do_{name}")() or ()
    yield {"url": page.url, "deed": name}


@spider.page(r"/item/")
def item(page: shoal.Page) -> Iterator[Any]:
    yield ITEMS[page.url.rsplit("/", 1)[1]]


@spider.page(r"/twins")
def twins(page: shoal.Page) -> Iterator[Any]:
    yield {"url": page.url, "twin": True}
    yield {"url": page.url, "twin": True}


@spider.page(r"/ask/head")
def ask_head(page: shoal.Page) -> Iterator[Any]:
    yield page.follow("/landed", method="HEAD")


@spider.page(r"/ask/post")
def ask_post(page: shoal.Page) -> Iterator[Any]:
    yield page.follow("/first", method="POST", body=b"body")


@spider.page(r"/ask/sitemap")
def ask_sitemap(page: shoal.Page) -> Iterator[Any]:
    yield page.follow("/sitemap.xml", route=SITEMAP)


@spider.page(r"/ask/secret")
def ask_secret(page: shoal.Page) -> Iterator[Any]:
    yield page.follow("/first", headers={"Authorization": "Basic aHVudGVyOmh1bnRlcjI="})


@spider.page(r"/xml")
def xml(page: shoal.Page) -> Iterator[Any]:
    yield {"url": page.url, "title": page.xpath("string(/)").get(), "kind": page.kind.value}


@spider.page(r"/json")
def json(page: shoal.Page) -> Iterator[Any]:
    yield {"url": page.url, "title": repr(page.json())[:100]}


@spider.page()
def anything(page: shoal.Page) -> Iterator[Any]:
    yield {"url": page.url, "title": page.css("title::text").get(), "encoding": page.encoding}
    yield page.links("a.render", render=True)
    yield page.links()
