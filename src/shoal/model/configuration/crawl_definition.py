"""What a crawl is started with, as fields.

Schedules are stored in this form. A store never holds a command line: a word that the check of a command
takes for a value and the command for an option would let those who can write to the store choose what a
scheduler's machine reads and runs. `command_arguments` makes the command from the fields, every value
attached to its option. `parse_command` is its inverse, for what people type and for schedules of earlier
versions.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured

HIDDEN = "***"

_TEXTS = {
    "seeds": "--seeds",
    "query": "--query",
    "follow": "--follow",
    "depth": "--depth",
    "max_pages": "--max-pages",
    "rate": "--rate",
    "per_host": "--per-host",
    "concurrency": "--concurrency",
    "user_agent": "--user-agent",
    "contact": "--contact",
    "procs": "--procs",
    "max_dead": "--max-dead",
    "config": "--config",
}
_LISTS = {
    "items": "--item",
    "arguments": "--argument",
    "sitemaps": "--sitemap",
    "outputs": "--out",
    "proxies": "--proxy",
}
_SWITCHES = {
    "same_host": ("--same-host", "--any-host"),
    "robots": ("--robots", "--no-robots"),
    "allow_private": ("--allow-private", ""),
    "render": ("--render", ""),
}
_SHORT = {"-a": "--argument", "-y": "--yes", "-q": "--quiet", "-v": "--verbose"}
# What a command prints and asks: a scheduler decides about that.
_IGNORED = frozenset({"--yes", "--quiet", "--verbose", "--json"})
_REFUSED = {
    "--store": "it is that of the schedule",
    "--crawl": "it is named after the schedule",
    "--again": "give it to shoal schedule add, before the --",
    "--fresh": "give --overlap replace to shoal schedule add, before the --",
    "--resume": "a scheduler resumes what was interrupted",
    "--dry-run": "a scheduled crawl runs",
}
NO_FIELDS = (*_IGNORED, *_REFUSED, "--log-format")
"""Options of `shoal crawl` that a definition does not have."""


class CrawlDefinition(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The target and options of `shoal crawl`. Values are texts until settings are made of them."""

    spider: str = ""  # books.py, books.py:name, books.toml or module:name; empty: the crawl has no spider
    urls: tuple[str, ...] = ()
    items: tuple[str, ...] = ()  # NAME=CSS
    arguments: tuple[str, ...] = ()  # NAME=VALUE, of the spider
    sitemaps: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    seeds: str | None = None  # a file; with `query`, a database
    query: str | None = None
    follow: str | None = None
    depth: str | None = None
    max_pages: str | None = None
    rate: str | None = None
    per_host: str | None = None
    concurrency: str | None = None
    user_agent: str | None = None
    contact: str | None = None
    procs: str | None = None
    max_dead: str | None = None
    config: str | None = None
    same_host: bool | None = None
    robots: bool | None = None
    allow_private: bool | None = None
    render: bool | None = None

    def __post_init__(self) -> None:
        if self.spider.startswith("-") or "://" in self.spider:
            raise Misconfigured(f"{self.spider!r} is not the name of a spider")
        for url in self.urls:
            if "://" not in url:
                raise Misconfigured(f"{url!r} is not a URL; only the first TARGET may be a spider")


def command_arguments(crawl: CrawlDefinition) -> list[str]:
    """Return the arguments after `shoal crawl` or `shoal submit`: options first, then spider and URLs."""
    found = []
    for field, option in _TEXTS.items():
        if (value := getattr(crawl, field)) is not None:
            found.append(f"{option}={value}")
    for field, option in _LISTS.items():
        found += [f"{option}={value}" for value in getattr(crawl, field)]
    for field, (yes, no) in _SWITCHES.items():
        if (chosen := getattr(crawl, field)) is not None and (yes if chosen else no):
            found.append(yes if chosen else no)
    return [*found, "--", *([crawl.spider] if crawl.spider else []), *crawl.urls]


def hide_secrets(crawl: CrawlDefinition, public_name: Callable[[str], str]) -> CrawlDefinition:
    """Return a crawl that can be shown; `public_name` returns an address without its password."""
    return msgspec.structs.replace(
        crawl,
        urls=tuple(map(public_name, crawl.urls)),
        outputs=tuple(map(public_name, crawl.outputs)),
        seeds=None if crawl.seeds is None else public_name(crawl.seeds),
        proxies=tuple(HIDDEN for _ in crawl.proxies),
        arguments=tuple(f"{one.partition('=')[0]}={HIDDEN}" for one in crawl.arguments),
    )


def parse_command(typed: Sequence[str]) -> CrawlDefinition:
    """Return what the target and options of a command say; raise `Misconfigured` for what a schedule cannot.

    Options are read as `shoal crawl` reads them.
    """
    fields: dict[str, Any] = {}
    targets: list[str] = []
    left = iter(typed)
    for word in left:
        if word == "--":
            targets += left
        elif word.startswith("-") and word != "-":
            _take(word, left, fields)
        else:
            targets.append(word)
    if targets and "://" not in targets[0]:
        fields["spider"] = targets.pop(0)
    return CrawlDefinition(urls=tuple(targets), **fields)


def _take(word: str, left: Iterator[str], fields: dict[str, Any]) -> None:
    option, equals, value = word.partition("=")
    if not option.startswith("--"):
        option, equals, value = _SHORT.get(word[:2], word[:2]), word[2:], word[2:].removeprefix("=")
        if option == "--verbose":  # -vv
            return
    if option in _IGNORED:
        return
    if option == "--log-format":
        equals or next(left, None)
        return
    if option in _REFUSED:
        raise Misconfigured(f"{option} is not for schedules: {_REFUSED[option]}")
    for field, pair in _SWITCHES.items():
        if option in pair:
            if equals:
                raise Misconfigured(f"{option}: takes no value")
            fields[field] = option == pair[0]
            return
    [field, *_] = [field for field, known in (_TEXTS | _LISTS).items() if known == option] or [""]
    if not field:
        close = get_close_matches(option, options(), n=1)
        raise Misconfigured(f"no such option: {option}" + (f"; did you mean {close[0]}?" if close else ""))
    if not equals and (value := next(left, "")) == "":
        raise Misconfigured(f"{option}: needs a value")
    fields[field] = (*fields.get(field, ()), value) if field in _LISTS else value


def options() -> list[str]:
    """Return the options that a definition can have."""
    switches = [option for pair in _SWITCHES.values() for option in pair if option]
    return [*_TEXTS.values(), *_LISTS.values(), *switches]
