"""Parse TARGET: start URLs, a spider file, or a spider in a module."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.cli.input.seeds import start_url
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.url import host_key
from shoal.spider.source import PlainSpider, SpiderFile, SpiderModule, SpiderSource

_IN_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FIELD = re.compile(r"([^\W\d]\w*)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    source: SpiderSource
    seeds: tuple[str, ...] = ()  # empty, and no --seeds: the spider's start URLs


def read_target(targets: Sequence[str], items: Sequence[str] = (), listed: str = "") -> Target:
    """Return the spider and start URLs that TARGET names; `items` are fields for a crawl without a spider.

    `listed` is the first URL of --seeds, if there is one; TARGET may then be empty.
    """
    if not targets and not listed:
        raise Misconfigured("nothing to crawl: name a URL, a spider (books.py, module:name), or --seeds FILE")
    if not targets or "://" in targets[0]:
        start = tuple(_url(target) for target in targets)
        # Named after the host, so that the same command resumes the same crawl.
        name = host_key((*start, listed)[0])
        if not listed:
            return Target(PlainSpider(name, start, read_fields(items)))
        # There may be millions: they are seeds, not part of the spider.
        return Target(PlainSpider(name, (), read_fields(items)), start)
    first, *rest = targets
    if items:
        raise Misconfigured("--item is for crawls without a spider; the spider defines what to extract")
    seeds = tuple(_url(target) for target in rest)
    if first.endswith((".py", ".toml")):
        if not Path(first).exists():
            raise Misconfigured(f"no such spider file: {first}")
        return Target(SpiderFile(first), seeds)
    if _IN_MODULE.fullmatch(first):
        module, _, attribute = first.partition(":")
        return Target(SpiderModule(module, attribute), seeds)
    raise Misconfigured(
        f"{first!r} is not a URL, a spider file (.py, .toml) or module:spider; did you mean https://{first} ?"
    )


def _url(text: str) -> str:
    if "://" not in text:
        raise Misconfigured(f"{text!r} is not a URL; only the first TARGET may be a spider")
    try:
        return start_url(text)
    except Rejected as error:
        raise Misconfigured(str(error)) from None


def read_fields(items: Sequence[str]) -> dict[str, str]:
    """Parse the NAME=CSS pairs of --item."""
    fields: dict[str, str] = {}
    for item in items:
        match = _FIELD.fullmatch(item)
        if match is None:
            raise Misconfigured(f"--item {item!r}: must be NAME=CSS, for example --item price=.price")
        name, css = match.groups()
        if name in fields or name == "url":
            raise Misconfigured(f"--item {item!r}: the field {name} is already defined")
        fields[name] = css.strip()
    return fields
