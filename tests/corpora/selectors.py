"""The same queries on the same real pages, asked of Shoal and of parsel.

parsel answers on the tree that libxml2 builds, Shoal's CSS on the one that a browser would build. Where the
answers differ, parsel is asked again on a copy of the browser's tree: if it now agrees, selectors mean the same
and only the trees differ, and libxml2's tree is changed step by step until the rule is found that made the
difference. What cannot be explained so is `UNEXPLAINED`.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import parsel
from selectolax.lexbor import LexborHTMLParser
from tests.corpora.browser_rules import BROKEN, RULES, is_broken
from w3lib.encoding import html_to_unicode

from shoal.spider.html.lexbor_to_lxml import copy_tree
from shoal.spider.page import Page

Ask = Callable[[Any], list[str]]

CSS = (
    "title::text",
    "h1 ::text",
    "h2::text",
    "p::text",
    "p ::text",
    "li > a::text",
    "td ::text",
    "dl > dt::text",
    "div > p:first-child::text",
    "ul li:not(:last-child) a::text",
    "table tr:nth-child(2) td::text",
    "a::attr(href)",
    "a[href^=http]::attr(href)",
    "[id]::attr(id)",
    "meta[name]::attr(content)",
)
XPATH = ('//a[starts-with(@href, "#")]/@href', "//h2/following-sibling::p[1]//text()")


def _css(query: str) -> Ask:
    return lambda page: list(page.css(query).getall())


def _xpath(query: str) -> Ask:
    return lambda page: list(page.xpath(query).getall())


QUERIES: dict[str, Ask] = {
    **{query: _css(query) for query in CSS},
    **{query: _xpath(query) for query in XPATH},
    "li, then ./a/@href": lambda page: page.css("li").xpath("./a/@href").getall(),
    "h1, h2, h3, then re": lambda page: page.css("h1, h2, h3").re(r">\s*(\d+(?:\.\d+)*)"),
    "p::text, then re": lambda page: page.css("p::text").re(r"\b[A-Z][a-z]+ \d+"),
}

UNEXPLAINED = "unexplained"


def differences(body: bytes, queries: dict[str, Ask] = QUERIES) -> Iterator[tuple[str, str]]:
    """Ask both; give the queries that are answered differently, each with what explains it."""
    ours = Page.of(body, content_type="text/html")
    text = html_to_unicode("text/html", body)[1]
    theirs = parsel.Selector(text=text, type="html")
    for name, ask in queries.items():
        answer = ask(ours)
        if answer != ask(theirs):
            yield name, _explained(text, ask, answer)


def _explained(text: str, ask: Ask, answer: list[str]) -> str:
    browsers = next(iter(copy_tree(LexborHTMLParser(text)).values()))
    if ask(parsel.Selector(root=browsers, type="html")) != answer:
        return UNEXPLAINED
    for chosen in (rules for size in range(1, len(RULES) + 1) for rules in combinations(RULES, size)):
        changed = parsel.Selector(text=text, type="html")
        for rule in chosen:
            RULES[rule](changed.root)
        if ask(changed) == answer:
            return "; ".join(chosen)
    return BROKEN if is_broken(text) else UNEXPLAINED
