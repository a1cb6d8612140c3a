"""Spiders in TOML: which pages yield which fields, and which links are followed.

    name = "books"
    start = ["https://books.example/"]
    rate = 1.0                                      # options, as in [crawl]

    [[page]]
    match = "/catalogue/[^/]+/index.html"
    item = {title = "h1", price = ".price::text"}   # the text of the first match of each

    [[page]]
    links = ["h3 a", {select = ".next a", priority = 1}]

Each [[page]] becomes a handler. As in Python, a page goes to the first block whose `match` is found in its
URL; a block without `match` takes the other pages.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from shoal.model.configuration.configure import TYPES, SettingValue, configure
from shoal.model.configuration.expression import compile_expression
from shoal.model.configuration.toml_text import parse_toml
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.request import FIRST, LAST
from shoal.model.settings import OPERATOR_OPTIONS
from shoal.spider.arguments import Given, as_text, fill_defaults, refuse_arguments
from shoal.spider.html.css import compile_query
from shoal.spider.html.selector import Selector
from shoal.spider.page import Page
from shoal.spider.spider import Spider, operator_option

_OPTIONS = {key.removeprefix("crawl.") for key in TYPES if key.startswith("crawl.")}
_TOP = {"name", "start", "sitemaps", "hosts", "key", "page", "arguments"} | _OPTIONS
_PAGE = {"match", "name", "key", "item", "each", "links", "priority", "statuses"}
_WAYS = ("pool", "exit_kind", "country", "level")  # how links are fetched: fields of `Request`
_LINKS = {"select", "priority", "route", "follow", *_WAYS}


def toml_spider(text: str, where: str, arguments: Given = MappingProxyType({})) -> Spider:
    """Return the spider that the text of a TOML file describes, with the `arguments` that were typed.

    Raises `Misconfigured` with the file (`where`), the line and the key that is wrong.
    """
    try:
        tree = parse_toml(text)
    except Rejected as error:
        raise Misconfigured(f"{where}: {error}") from None
    return _Reader(text, where, arguments).spider(tree)


@dataclass(frozen=True, slots=True)
class _LinkRule:
    """One entry of `links`."""

    select: str | None
    priority: int | None = None  # None: by the URL
    route: str = ""
    follow: str | None = None
    ways: Mapping[str, Any] | None = None  # of `_WAYS`


class _Reader:
    def __init__(self, text: str, where: str, arguments: Given) -> None:
        self._given = arguments
        self._values: dict[str, str] = {}  # of the arguments, as text
        self._lines = text.splitlines()
        self._where = where
        self._has_fallback = False

    def spider(self, tree: Mapping[str, Any]) -> Spider:
        self._check_keys(tree, _TOP)
        changed = self._read_arguments(tree)
        pages = tree.get("page", [])
        if not isinstance(pages, list) or not pages or not all(isinstance(page, dict) for page in pages):
            raise self._error("page", "there must be at least one [[page]]")
        options = {key: value for key, value in tree.items() if key in _OPTIONS}
        for key, value in options.items():
            if key in OPERATOR_OPTIONS:
                raise Misconfigured(operator_option(self._place(key), key))
            configure([SettingValue(f"crawl.{key}", value, f"{self._place(key)}: {key}")])
        start = self._filled(tree, "start")
        try:
            spider = Spider(
                tree.get("name", ""),
                start,
                sitemaps=self._filled(tree, "sitemaps"),
                hosts=self._filled(tree, "hosts"),
                key=self._texts(tree, "key"),
                **options,
            )
        except Misconfigured as error:
            raise Misconfigured(
                f"{self._place('start' if 'start:' in str(error) else 'name')}: {error}"
            ) from None
        spider.arguments = changed
        for number, page in enumerate(pages, 1):
            self._add(spider, page, number)
        return spider

    def _read_arguments(self, tree: Mapping[str, Any]) -> dict[str, str]:
        """Read the table `arguments`, names with their defaults; return those that are not defaults."""
        defaults = tree.get("arguments", {})
        if not isinstance(defaults, dict):
            raise self._error("arguments", "must be a table of name = default")
        for name, value in defaults.items():
            if isinstance(value, dict | list):
                raise self._error("arguments", f"{name}: must be a text, a number or a truth value")
        if not defaults:
            refuse_arguments(self._given, self._where)
        values, changed = fill_defaults(defaults, self._given, self._where)
        self._values = {name: as_text(value) for name, value in values.items()}
        return changed

    def _filled(self, tree: Mapping[str, Any], key: str) -> list[str]:
        """Return texts in which `{name}` is replaced by the value of an argument."""
        texts = self._texts(tree, key)
        for name, value in self._values.items():
            texts = [text.replace(f"{{{name}}}", quote(value, safe="")) for text in texts]
        return texts

    def _statuses(self, page: Mapping[str, Any], number: int) -> list[int]:
        statuses = page.get("statuses", [])
        if not isinstance(statuses, list):
            raise self._error("statuses", "must be a list of statuses, such as [404]", number)
        return statuses

    def _add(self, spider: Spider, page: Mapping[str, Any], number: int) -> None:
        self._check_keys(page, _PAGE, number)
        match, name, each = (self._text(page, key, number) for key in ("match", "name", "each"))
        fields = self._fields(page, number)
        rules = list(self._link_rules(page, number))
        if not fields and not rules:
            raise self._error("page", "it yields nothing: add item or links", number)
        if match is None and name is None:
            if self._has_fallback:
                raise self._error("page", "an earlier [[page]] has no match either: add match to one", number)
            self._has_fallback = True

        def handler(page: Page) -> Iterator[object]:
            if fields:
                roots = [page.root] if each is None else page.css(each)
                for root in roots:
                    yield {"url": page.url} | {field: _value(root, query) for field, query in fields.items()}
            for rule in rules:
                yield page.links(
                    rule.select,
                    follow=rule.follow,
                    priority=rule.priority,
                    route=rule.route,
                    **(rule.ways or {}),
                )

        handler.__name__ = name or f"page {number}"
        key = None if "key" not in page else self._texts(page, "key", number)
        try:
            spider.page(match, name=name, key=key, statuses=self._statuses(page, number))(handler)
        except Misconfigured as error:
            wrong = "statuses" if "statuses" in str(error) else "match" if "regular" in str(error) else "name"
            raise self._error(wrong, str(error), number) from None

    def _fields(self, page: Mapping[str, Any], number: int) -> dict[str, str | list[str]]:
        fields = page.get("item", {})
        if not isinstance(fields, dict) or ("item" in page and not fields):
            raise self._error("item", "must be a table of field = selector", number)
        for field, query in fields.items():
            inner = query[0] if isinstance(query, list) and len(query) == 1 else query
            self._selector(inner, field, number)
        return fields

    def _link_rules(self, page: Mapping[str, Any], number: int) -> Iterator[_LinkRule]:
        links = page.get("links", [])
        default = self._priority(page, number)
        if links is True:
            yield _LinkRule(None, default)
            return
        if not isinstance(links, list):
            raise self._error("links", "must be a list of selectors, or true for all links", number)
        for one in links:
            table = one if isinstance(one, dict) else {"select": one}
            self._check_keys(table, _LINKS, number)
            follow = self._text(table, "follow", number)
            try:
                compile_expression(follow or "")
            except ValueError as error:
                raise self._error("follow", str(error), number) from None
            yield _LinkRule(
                self._selector(table.get("select"), "links", number),
                self._priority(table, number, default),
                self._text(table, "route", number) or "",
                follow,
                {name: text for name in _WAYS if (text := self._text(table, name, number)) is not None},
            )

    def _selector(self, query: object, key: str, number: int) -> str:
        if not isinstance(query, str) or not query.strip():
            raise self._error(key, f"must be a CSS selector, not {query!r}", number)
        try:
            compile_query(query)
        except ValueError as error:
            raise self._error(key, str(error), number) from None
        return query

    def _priority(self, table: Mapping[str, Any], number: int, default: int | None = None) -> int | None:
        value = table.get("priority", default)
        if value is None:
            return None
        if not isinstance(value, int) or not FIRST <= value <= LAST:
            raise self._error("priority", f"must be from {FIRST} (first) to {LAST} (last)", number)
        return value

    def _text(self, table: Mapping[str, Any], key: str, number: int) -> str | None:
        value = table.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self._error(key, f"must be a non-empty string, not {value!r}", number)
        return value

    def _texts(self, table: Mapping[str, Any], key: str, number: int = 0) -> list[str]:
        value = table.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise self._error(key, f"must be a string or a list of strings, not {value!r}", number)
        return texts

    def _check_keys(self, table: Mapping[str, Any], known: Iterable[str], number: int = 0) -> None:
        for key in table:
            if key not in known:
                close = get_close_matches(key, list(known), n=1, cutoff=0.5)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise self._error(key, f"unknown key{hint}", number)

    def _error(self, key: str, problem: str, number: int = 0) -> Misconfigured:
        page = f"page {number}: " if number and key != "page" else ""
        return Misconfigured(f"{self._place(key, number)}: {page}{key}: {problem}")

    def _place(self, key: str, number: int = 0) -> str:
        """Return file and line of a key. tomllib has no positions, so search for `key =` in the block."""
        blocks = 0
        block_line = 0
        for line, text in enumerate(self._lines, 1):
            if re.match(r"\s*\[\[\s*page\s*\]\]", text):
                blocks += 1
                if blocks == number:
                    block_line = line
            if blocks == number and re.search(rf"""(?<![\w-])["']?{re.escape(key)}["']?\s*[=\]]""", text):
                return f"{self._where}:{line}"
        return f"{self._where}:{block_line}" if block_line else self._where


def _value(root: Selector, query: str | list[str]) -> object:
    """Return the stripped text of the first match, or of all matches if the selector is in a list."""
    if isinstance(query, list):
        return [found.text.strip() for found in root.css(query[0])]
    first = next(iter(root.css(query)), None)
    return None if first is None else first.text.strip()
