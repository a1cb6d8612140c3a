"""What a page costs a parse child: finding its links, resolving them, and the whole of it.

    python -m bench.links [--pages 400]

Each way is run in turn, several times over, and the best round counts: the rest is the machine's noise. The
pages are those of the whole comparison, freshly parsed each time, because a tree that is warm in the cache
flatters everything that walks it. A tenth of their links climb (`../`), another has a fragment (`#`).
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ada_url
from rich.console import Console
from rich.table import Table
from selectolax.lexbor import LexborHTMLParser

import shoal
from bench.site import FIELDS, page, path_of
from shoal.model.limits import ParseLimits
from shoal.model.page import ParseTask
from shoal.model.request import Link, Request
from shoal.model.scope import Scope
from shoal.model.url import canonical, fingerprint_of, resolver
from shoal.spider.builtin_spiders import plain_spider
from shoal.spider.html.link_resolver import LinkResolver
from shoal.spider.html.links import all_hrefs, read_meta_tags
from shoal.spider.run import run
from shoal.spider.spider import Spider

ROUNDS = 5
SITE = 20_000
# As the parse pool sets them for its children: without, Lexbor's speed is a matter of luck.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "268435456"}
HEADERS = (("content-type", "text/html"), ("server", "nginx"))
BASE = "https://shop.example/shop/c1/p1.html"


def make_tasks(count: int) -> list[ParseTask]:
    tasks = []
    for number in range(1, count + 1):
        url = f"https://shop.example{path_of(number)}"
        tasks.append(
            ParseTask(number, number, Request(url=url), url, 200, HEADERS, page(number, SITE).encode(), 0.0)
        )
    return tasks


def user_spider() -> Spider:
    spider = shoal.Spider("bench")

    @spider.page()
    def product(page: shoal.Page) -> object:
        yield {name: page.css(f"{query}::text").get() for name, query in FIELDS.items()}
        yield from page.links()

    return spider


def best(ways: dict[str, Callable[[], object]], per: int) -> dict[str, float]:
    """Run every way in turn; give the best round of each, in microseconds for one of `per`."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.process_time()
            way()
            times[name].append((time.process_time() - began) / per * 1e6)
    return {name: min(found) for name, found in times.items()}


def on_each(values: Sequence[Any], work: Callable[[Any], object]) -> Callable[[], None]:
    """Make a way of doing `work` on one value after the other, keeping nothing."""

    def way() -> None:
        for value in values:
            work(value)

    return way


def show(console: Console, title: str, figures: dict[str, float], reference: str) -> None:
    table = Table("", "µs", f"÷ {reference}", title=title, title_justify="left")
    for name, figure in figures.items():
        table.add_row(name, f"{figure:.2f}", f"{figure / figures[reference]:.2f}")
    console.print(table)


def finding(bodies: Sequence[bytes]) -> dict[str, Callable[[], object]]:
    ways: dict[str, Callable[[LexborHTMLParser], object]] = {
        "parse, no links": lambda tree: None,
        "ours: a, area, link; nofollow": _hrefs,
        "tags, href": lambda tree: [node.attrs["href"] for node in tree.tags("a")],
        "tags, all attributes": lambda tree: [node.attributes["href"] for node in tree.tags("a")],
        "css, href": lambda tree: [node.attrs["href"] for node in tree.css("a[href]")],
        "css without nofollow, href": lambda tree: [
            node.attrs["href"] for node in tree.css("a[href]:not([rel~=nofollow i])")
        ],
    }
    return {name: on_each(bodies, partial(_parsed_and, find)) for name, find in ways.items()}


def _hrefs(tree: LexborHTMLParser) -> list[str]:
    return all_hrefs(tree, read_meta_tags(tree), obey_nofollow=True)


def _parsed_and(find: Callable[[LexborHTMLParser], object], body: bytes) -> None:
    find(LexborHTMLParser(body))


LINKS = {
    "plain": "/shop/c{0}/p{0}.html",
    "relative": "p{0}.html",
    "climbing": "../c{0}/p{0}.html",
    "absolute": "https://shop.example/shop/p{0}.html",
    "to another site": "https://other.example/p{0}.html",
    "hard": "/shop/c{0}/p%20{0}.html",
}


def resolving(count: int) -> dict[str, Callable[[], object]]:
    hrefs = {kind: [form.format(number) for number in range(count)] for kind, form in LINKS.items()}
    urls = [f"https://shop.example{href}" for href in hrefs["plain"]]
    scope = Scope(hosts=frozenset({"shop.example"}))
    return {
        "ada join_url, plain": on_each(hrefs["plain"], partial(ada_url.join_url, BASE)),
        "join, plain and known": on_each(hrefs["plain"], LinkResolver().for_page(BASE, resolver(BASE))),
        **{f"join, {kind}": on_each(hrefs[kind], resolver(BASE)) for kind in LINKS},
        "canonical": on_each(urls, canonical),
        "fingerprint_of": on_each(urls, partial(fingerprint_of, "GET")),
        "fingerprint_of, query": on_each([url + "?b=1&a=2" for url in urls], partial(fingerprint_of, "GET")),
        "Scope.refuse": on_each(urls, partial(scope.refuse, depth=3)),
        "Link.to": on_each([Request(url=url, depth=3, found_on=1) for url in urls], Link.to),
    }


def running(tasks: Sequence[ParseTask]) -> dict[str, Callable[[], object]]:
    limits = ParseLimits()

    def through(spider: Spider, scope: Callable[[], Scope]) -> Callable[[], None]:
        return on_each(tasks, lambda task: run(spider, task, scope=scope(), limits=limits))

    one_scope = Scope()
    return {
        "parse alone": on_each(tasks, lambda task: LexborHTMLParser(task.body)),
        "no code, five fields, links known": through(plain_spider("p", [], FIELDS), lambda: one_scope),
        "no code, no fields, links known": through(plain_spider("p", [], {}), lambda: one_scope),
        "a spider's handler, links known": through(user_spider(), lambda: one_scope),
        "no code, five fields, every link new": through(plain_spider("p", [], FIELDS), Scope),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.links")
    parser.add_argument("--pages", type=int, default=400)
    pages = parser.parse_args().pages
    if not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "bench.links", *sys.argv[1:]], os.environ | MALLOC)
    console = Console()
    tasks = make_tasks(pages)
    found = best(finding([task.body for task in tasks]), pages)
    show(console, f"Finding the links of a page of {len(tasks[0].body):,} bytes", found, "parse, no links")
    show(console, "One link", best(resolving(2000), 2000), "ada join_url, plain")
    show(console, "One page, all of it", best(running(tasks), pages), "parse alone")


if __name__ == "__main__":
    main()
