"""Parse TARGET: start URLs, a spider file, or a spider in a module."""

import os
import re
from collections.abc import Sequence
from os.path import exists  # False for a name that no file can have

import msgspec

from shoal.model.errors import Misconfigured, Rejected
from shoal.model.start_url import start_url
from shoal.model.url import host_key
from shoal.spider.arguments import parse_arguments
from shoal.spider.source import PlainSpider, SpiderFile, SpiderModule, SpiderSource

_IN_FILE = re.compile(r"(.+\.(?:py|toml)):([A-Za-z_]\w*)")
_IN_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FIELD = re.compile(r"([^\W\d]\w*)=(.+)", re.DOTALL)


class Target(msgspec.Struct, frozen=True):
    source: SpiderSource
    seeds: tuple[str, ...] = ()  # empty, and no --seeds: the spider's start URLs


def read_target(
    targets: Sequence[str],
    items: Sequence[str] = (),
    listed: str = "",
    arguments: Sequence[str] = (),
    *,
    sitemaps: Sequence[str] = (),
) -> Target:
    """Return the spider and start URLs that TARGET names; `items` are fields for a crawl without a spider.

    `listed` is the first URL of --seeds, if there is one; TARGET may then be empty, as with `sitemaps`.
    `arguments` are the NAME=VALUE pairs of -a, for a spider.
    """
    given = parse_arguments(arguments)
    named = [sitemap for sitemap in sitemaps if sitemap != "auto"]
    if not targets and not listed and not named:
        raise Misconfigured(
            "nothing to crawl: name a URL, a spider (books.py, module:name), --seeds FILE or --sitemap URL"
        )
    if not targets and not listed:
        return Target(PlainSpider(host_key(_url(named[0])), (), read_fields(items)))
    if not targets or "://" in targets[0]:
        if given:
            raise Misconfigured("-a is for spiders: name one (books.py, module:name) before the URLs")
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
    in_file = None if exists(first) else _IN_FILE.fullmatch(first)
    path, attribute = in_file.groups() if in_file else (first, "")
    if path.endswith((".py", ".toml")):
        if not exists(path):
            raise Misconfigured(f"no such spider file: {path}")
        return Target(SpiderFile(path, attribute, given), seeds)
    if names_module(first):
        module, _, attribute = first.partition(":")
        return Target(SpiderModule(module, attribute, given, os.getcwd()), seeds)
    raise Misconfigured(
        f"{first!r} is not a URL, a spider file (books.py, books.toml, books.py:name) or module:spider;"
        f" did you mean https://{first} ?"
    )


def names_module(text: str) -> bool:
    """Return whether a TARGET has the form of a spider in a module: `package.module:name`."""
    return _IN_MODULE.fullmatch(text) is not None


def names_file(target: str) -> bool:
    """Return whether TARGET names a file of spiders, or a spider in one."""
    return target.endswith((".py", ".toml")) or _IN_FILE.fullmatch(target) is not None


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
