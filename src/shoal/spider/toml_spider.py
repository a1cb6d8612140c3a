"""Spiders that are written down and not programmed: a TOML file says which page yields what, and leads where.

    name = "books"
    start = ["https://books.example/"]
    rate = 1.0                                      # options, as in [crawl]

    [[page]]
    match = "/catalogue/[^/]+/index.html"
    item = {title = "h1", price = ".price::text"}   # each the text of the first match

    [[page]]
    links = ["h3 a", {select = ".next a", priority = 1}]

A page goes to the first block that matches its URL; one without `match` takes the rest, as with the handlers
of a spider in Python, which is what this makes.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from shoal.model.configure import KINDS, Given, configure
from shoal.model.errors import Misconfigured
from shoal.model.request import FIRST, LAST
from shoal.spider.html.css import compiled
from shoal.spider.html.selector import Selector
from shoal.spider.page import Page
from shoal.spider.spider import Spider

_OPTIONS = {key.removeprefix("crawl.") for key in KINDS if key.startswith("crawl.")}
_TOP = {"name", "start", "sitemaps", "hosts", "key", "page"} | _OPTIONS
_PAGE = {"match", "name", "key", "item", "each", "links", "priority"}
_LINKS = {"select", "priority", "route", "follow"}


def declared_spider(text: str, where: str) -> Spider:
    """Make a spider of the text of a TOML file; `where` names it. A complaint names the line and the key."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{where}: not valid TOML: {error}") from None
    return _Reader(text, where).spider(tree)


@dataclass(frozen=True, slots=True)
class _Following:
    """One entry of `links`."""

    select: str | None
    priority: int | None = None  # None: by what the URL looks like
    route: str = ""
    follow: str | None = None


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self._lines = text.splitlines()
        self._where = where
        self._rest_taken = False

    def spider(self, tree: Mapping[str, Any]) -> Spider:
        self._known(tree, _TOP)
        pages = tree.get("page", [])
        if not isinstance(pages, list) or not pages or not all(isinstance(page, dict) for page in pages):
            raise self._wrong("page", "there must be at least one [[page]]")
        options = {key: value for key, value in tree.items() if key in _OPTIONS}
        for key, value in options.items():
            configure([Given(f"crawl.{key}", value, f"{self._place(key)}: {key}")])
        start = self._texts(tree, "start")
        try:
            spider = Spider(
                tree.get("name", ""),
                start,
                sitemaps=self._texts(tree, "sitemaps"),
                hosts=self._texts(tree, "hosts"),
                key=self._texts(tree, "key"),
                **options,
            )
        except Misconfigured as error:
            raise Misconfigured(
                f"{self._place('start' if 'start:' in str(error) else 'name')}: {error}"
            ) from None
        for number, page in enumerate(pages, 1):
            self._add(spider, page, number)
        return spider

    def _add(self, spider: Spider, page: Mapping[str, Any], number: int) -> None:
        self._known(page, _PAGE, number)
        match, name, each = (self._text(page, key, number) for key in ("match", "name", "each"))
        fields = self._fields(page, number)
        following = list(self._following(page, number))
        if not fields and not following:
            raise self._wrong("page", "it yields nothing: give it item or links", number)
        if match is None and name is None:
            if self._rest_taken:
                raise self._wrong("page", "an earlier page without match takes the rest already", number)
            self._rest_taken = True

        def handler(page: Page) -> Iterator[object]:
            if fields:
                roots = [page.root] if each is None else page.css(each)
                for root in roots:
                    yield {"url": page.url} | {field: _taken(root, query) for field, query in fields.items()}
            for one in following:
                yield page.links(one.select, follow=one.follow, priority=one.priority, route=one.route)

        handler.__name__ = name or f"page {number}"
        key = None if "key" not in page else self._texts(page, "key", number)
        try:
            spider.page(match, name=name, key=key)(handler)
        except Misconfigured as error:
            raise self._wrong("match" if "regular" in str(error) else "name", str(error), number) from None

    def _fields(self, page: Mapping[str, Any], number: int) -> dict[str, str | list[str]]:
        fields = page.get("item", {})
        if not isinstance(fields, dict) or ("item" in page and not fields):
            raise self._wrong("item", "must be a table of fields and selectors", number)
        for field, query in fields.items():
            alone = query[0] if isinstance(query, list) and len(query) == 1 else query
            self._selector(alone, field, number)
        return fields

    def _following(self, page: Mapping[str, Any], number: int) -> Iterator[_Following]:
        links = page.get("links", [])
        usual = self._priority(page, number)
        if links is True:
            yield _Following(None, usual)
            return
        if not isinstance(links, list):
            raise self._wrong("links", "must be a list of selectors, or true for all links", number)
        for one in links:
            table = one if isinstance(one, dict) else {"select": one}
            self._known(table, _LINKS, number)
            follow = self._text(table, "follow", number)
            try:
                re.compile(follow or "")
            except re.error as error:
                raise self._wrong("follow", f"not a regular expression: {error}", number) from None
            yield _Following(
                self._selector(table.get("select"), "links", number),
                self._priority(table, number, usual),
                self._text(table, "route", number) or "",
                follow,
            )

    def _selector(self, query: object, key: str, number: int) -> str:
        if not isinstance(query, str) or not query.strip():
            raise self._wrong(key, f"must be a CSS selector, not {query!r}", number)
        try:
            compiled(query)
        except ValueError as error:
            raise self._wrong(key, str(error), number) from None
        return query

    def _priority(self, table: Mapping[str, Any], number: int, usual: int | None = None) -> int | None:
        value = table.get("priority", usual)
        if value is None:
            return None
        if not isinstance(value, int) or not FIRST <= value <= LAST:
            raise self._wrong("priority", f"must be from {FIRST} (first) to {LAST} (last)", number)
        return value

    def _text(self, table: Mapping[str, Any], key: str, number: int) -> str | None:
        value = table.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self._wrong(key, f"must be a text, not {value!r}", number)
        return value

    def _texts(self, table: Mapping[str, Any], key: str, number: int = 0) -> list[str]:
        value = table.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise self._wrong(key, f"must be a text or a list of texts, not {value!r}", number)
        return texts

    def _known(self, table: Mapping[str, Any], known: Iterable[str], number: int = 0) -> None:
        for key in table:
            if key not in known:
                close = get_close_matches(key, list(known), n=1, cutoff=0.5)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise self._wrong(key, f"there is no such key{hint}", number)

    def _wrong(self, key: str, what: str, number: int = 0) -> Misconfigured:
        page = f"page {number}: " if number and key != "page" else ""
        return Misconfigured(f"{self._place(key, number)}: {page}{key}: {what}")

    def _place(self, key: str, number: int = 0) -> str:
        """Find the line that sets a key: the parser does not tell, so it is looked for by its looks."""
        blocks = 0
        best = 0
        for line, text in enumerate(self._lines, 1):
            if re.match(r"\s*\[\[\s*page\s*\]\]", text):
                blocks += 1
                if blocks == number:
                    best = line
            if blocks == number and re.search(rf"""(?<![\w-])["']?{re.escape(key)}["']?\s*[=\]]""", text):
                return f"{self._where}:{line}"
        return f"{self._where}:{best}" if best else self._where


def _taken(root: Selector, query: str | list[str]) -> object:
    """Take the text of the first match, stripped, or of every match if the selector is in a list."""
    if isinstance(query, list):
        return [found.text.strip() for found in root.css(query[0])]
    first = next(iter(root.css(query)), None)
    return None if first is None else first.text.strip()
