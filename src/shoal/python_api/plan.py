"""The arguments of `shoal.run` as the plan of a crawl. Nothing is opened here."""

import os
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from os import PathLike, fspath
from os.path import exists  # False for a name that no file can have

from shoal.model.configuration.configure import TYPES, SettingValue, configure, from_environment
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.url import canonical, host_key
from shoal.services.crawl import CrawlPlan
from shoal.spider.pickled import pickle_spider
from shoal.spider.source import PlainSpider, SpiderFile, SpiderModule, SpiderSource
from shoal.spider.spider import Spider

MEMORY = "memory:"

SpiderLike = Spider | str | PathLike[str]
Outputs = str | PathLike[str] | Iterable[str | PathLike[str]]
Urls = str | Iterable[str]

_NOT_SETTINGS = frozenset({"SHOAL_DEBUG", "SHOAL_STORE_FILE"})  # variables of the command
_OPTIONS = [key.removeprefix("crawl.") for key in TYPES if key.startswith("crawl.")]


def plan_run(
    spider: SpiderLike,
    *,
    store: str | PathLike[str],
    out: Outputs,
    crawl: str,
    start: Urls,
    sitemaps: Urls,
    fresh: bool,
    settings: Mapping[str, object] | None,
    options: Mapping[str, object],
) -> CrawlPlan:
    """Return the plan; raise `Misconfigured` for the first argument that is not valid."""
    _refuse_parse_process()
    values = [
        # What the operator of a machine sets for every process: name servers, authorities, a contact.
        *(one for one in from_environment(os.environ, besides=_NOT_SETTINGS) if one.key != "store"),
        SettingValue("store", fspath(store), "store"),
        *(_setting(key, value) for key, value in (settings or {}).items()),
        *(_option(name, value) for name, value in options.items() if value is not None),
    ]
    overrides = (one.key.partition("crawl.")[2] for one in values)
    checked, seeds = configure(values), tuple(map(_url, _strings(start)))
    return CrawlPlan(
        source=_source(spider),
        settings=checked,
        name=crawl,
        seeds=seeds,
        sitemaps=tuple(_strings(sitemaps)),
        outputs=tuple(fspath(one) for one in ([out] if isinstance(out, str | PathLike) else out)),
        fresh=fresh,
        overrides=frozenset(name for name in overrides if name),
    )


def _refuse_parse_process() -> None:
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", "") == "shoal.parse.zygote":
        raise Misconfigured(
            "the file of the spider runs a crawl while it is imported: put that below"
            ' if __name__ == "__main__":'
        )


def _source(spider: SpiderLike) -> SpiderSource:
    if isinstance(spider, Spider):
        if not spider.routes:
            raise Misconfigured(
                f"spider {spider.name!r} has no handler: decorate a function with @spider.page()"
            )
        return pickle_spider(spider)
    if not isinstance(spider, str | PathLike):
        raise Misconfigured(
            f"the first argument is a shoal.Spider, a URL, a spider file or module:name, not {spider!r}"
        )
    named = fspath(spider)
    if "://" in named:
        url = _url(named)
        return PlainSpider(host_key(url), (url,))
    file, colon, attribute = named.rpartition(":")
    if not colon or exists(named):
        file, attribute = named, ""
    if file.endswith((".py", ".toml")):
        if not exists(file):
            raise Misconfigured(f"no such spider file: {file}")
        return SpiderFile(file, attribute)
    module, colon, attribute = named.partition(":")
    if colon and module.replace(".", "").isidentifier() and attribute.isidentifier():
        return SpiderModule(module, attribute)
    raise Misconfigured(f"{named!r} is not a URL, a spider file (.py, .toml) or module:spider")


def _strings(values: Urls) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _url(text: str) -> str:
    try:
        url = canonical(text)
    except Rejected as error:
        raise Misconfigured(f"start: {error}") from None
    if not url.startswith(("http://", "https://")):
        raise Misconfigured(f"start: not an http(s) URL: {text!r}")
    return url


def _option(name: str, value: object) -> SettingValue:
    if name not in _OPTIONS:
        raise Misconfigured(f"unknown option {name!r}{_nearest(name, _OPTIONS)}")
    return SettingValue(f"crawl.{name}", value, name)


def _setting(key: str, value: object) -> SettingValue:
    if key not in TYPES or key == "store":
        raise Misconfigured(f"settings: unknown key {key!r}{_nearest(key, TYPES)}")
    return SettingValue(key, value, f"settings: {key}")


def _nearest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
