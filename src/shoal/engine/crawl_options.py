"""Settings of a crawl, turned into what the stations take."""

import logging
import math
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypedDict

import msgspec

from shoal.archive.writer import WriteRules
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.configuration.configure import TYPES, SettingValue, configure
from shoal.model.crawl_totals import BEGAN
from shoal.model.errors import Misconfigured
from shoal.model.exits.exit import is_line
from shoal.model.pace import Pace
from shoal.model.request import FINGERPRINT_KEY, new_fingerprint_key
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.model.scope import ITEM_KEYS, KeyScheme
from shoal.model.settings import OPERATOR_OPTIONS, CrawlSettings, Settings
from shoal.spider.arguments import ARGUMENTS, read_arguments, show_arguments
from shoal.spider.source import SpiderDescription
from shoal.spider.spider import operator_option

log = logging.getLogger(__name__)


class FrontierOptions(TypedDict):
    """What every frontier takes when it opens a crawl."""

    pace: Pace
    max_crashes: int
    slowdown: SlowdownRules
    host_budget: int
    hosts: Mapping[str, Pace]


def frontier_options(settings: Settings) -> FrontierOptions:
    return FrontierOptions(
        pace=pace_of(settings.crawl),
        max_crashes=settings.crawl.max_crashes,
        slowdown=settings.slowdown,
        host_budget=settings.links.per_host,
        hosts=host_paces(settings),
    )


def new_crawl_state(arguments: Mapping[str, str] = MappingProxyType({})) -> dict[str, bytes]:
    """Return the state that only a new crawl gets: crawls that exist keep what they have.

    `arguments` are those of its spider.
    """
    return {
        FINGERPRINT_KEY: new_fingerprint_key(),
        ITEM_KEYS: KeyScheme.INJECTIVE.value.encode(),
        BEGAN: f"{time.time():.6f}".encode(),
        **({ARGUMENTS: msgspec.json.encode(dict(arguments), order="sorted")} if arguments else {}),
    }


def refuse_other_arguments(crawl: str, stored: bytes | None, arguments: Mapping[str, str]) -> None:
    """Raise `Misconfigured` if a crawl was started with other arguments: that is another crawl."""
    before = read_arguments(stored)
    if before != arguments:
        raise Misconfigured(
            f"crawl {crawl!r} was started with {show_arguments(before)}, not with"
            f" {show_arguments(arguments)}: choose another --crawl NAME, or start it again with --fresh"
        )


def pace_of(settings: CrawlSettings) -> Pace:
    """Turn requests per second into an interval."""
    return Pace(1 / settings.rate if settings.rate else 0.0, settings.burst, settings.per_host)


def host_paces(settings: Settings) -> dict[str, Pace]:
    """Return the pace of every host whose block [hosts."name"] sets one; the crawl's applies to the rest."""
    usual = pace_of(settings.crawl)
    paces = {}
    for host, block in settings.hosts.items():
        if (block.rate, block.burst, block.per_host) != (None, None, None):
            paces[host] = Pace(
                usual.interval if block.rate is None else 1 / block.rate if block.rate else 0.0,
                usual.burst if block.burst is None else block.burst,
                usual.concurrency if block.per_host is None else block.per_host,
            )
    return paces


PACE = ("rate", "per_host", "burst")


def with_spider_options(
    settings: Settings,
    spider: SpiderDescription,
    overrides: frozenset[str],
    *,
    typed: frozenset[str] | None = None,
) -> Settings:
    """Apply the options of a spider, except those in `overrides`, which the user has set.

    `typed` are those that a flag has set, None: all. A flag is for this very crawl. A file and the
    environment are for all crawls of a folder, so the slower of their pace and the spider's applies: its
    author knows the site.

    The description comes from the process that ran the spider's code: what it may not set is checked here.
    """
    origin = f"spider {spider.name!r}"
    given = []
    for option, value in spider.options.items():
        if option in OPERATOR_OPTIONS:
            raise Misconfigured(operator_option(origin, option))
        if (key := f"crawl.{option}") not in TYPES:
            raise Misconfigured(f"{origin}: unknown option {option!r}")
        if value is None:
            continue
        if option not in overrides:
            given.append(SettingValue(key, value, f"{origin}: {option}"))
            continue
        general = getattr(settings.crawl, option)
        if option in PACE and typed is not None and option not in typed and is_slower(value, general):
            given.append(SettingValue(key, value, f"{origin}: {option}"))
            log.info("spider.overridden", extra={"option": option, "spider_has": value, "used": value})
        elif value != general:
            log.info("spider.overridden", extra={"option": option, "spider_has": value, "used": general})
    chosen = configure(given).crawl
    values = {one.key.removeprefix("crawl."): None for one in given}
    return replace(
        settings, crawl=replace(settings.crawl, **{name: getattr(chosen, name) for name in values})
    )


def is_slower(value: object, than: object) -> bool:
    """Return whether one value of a pace is slower than another; 0 means without limit."""
    if not isinstance(value, int | float) or not isinstance(than, int | float):
        return False
    return (value or math.inf) < (than or math.inf)


def parse_processes(settings: CrawlSettings) -> int:
    return settings.procs or max(1, (os.cpu_count() or 2) - 1)


def sandbox_rules(settings: Settings, *, otherwise: SandboxMode = SandboxMode.PREFER) -> SandboxRules:
    """Return how this process sandboxes spiders; `otherwise` is the mode if the settings name none."""
    parse = settings.parse
    private = (
        Settings().store,
        settings.store,
        settings.archive.location,
        settings.crawl.cookie_file,
        settings.worker.record_key_file,
        *settings.proxies.list,  # files; what has a password in it is left out below
    )
    return SandboxRules(
        SandboxMode(parse.sandbox or otherwise),
        readable=parse.readable,
        environment=parse.environment,
        # Paths only: an address may contain a password, and user code can read what the sandbox receives.
        private=tuple(path for path in private if path and "://" not in path and not is_line(path)),
    )


def write_rules(crawl: str, settings: Settings, *, writer: str = "") -> WriteRules:
    """Return how pages are archived; `writer` keeps the segments of several processes apart."""
    return WriteRules(
        crawl,
        writer=writer,
        robots=settings.crawl.robots,
        segment_bytes=settings.archive.segment_bytes,
        fsync=settings.crawl.fsync,
    )


# --- the limit of open files: read at the start, so that no request fails for want of a descriptor ---------

RESERVED = 50  # store, archive, outputs, logs, names, event loop, modules that are loaded late
PER_PROCESS = 4  # pipes and sockets of a parse process
PER_REQUEST = 2  # a connection in use, and one that is kept for the next request to its host


def fitting_concurrency(wanted: int, processes: int, limit: int) -> int:
    """Return how many requests at once a limit of open files allows; 0: not even one."""
    return max(0, min(wanted, (limit - RESERVED - PER_PROCESS * processes) // PER_REQUEST))


def fit_open_files(wanted: int, processes: int) -> int:
    """Return the concurrency that this process can use, after raising its limit of open files where it may.

    Raise `Misconfigured` if the limit is too low for a single request.
    """
    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = RESERVED + PER_PROCESS * processes + PER_REQUEST * wanted
    if limit < needed <= highest or highest == resource.RLIM_INFINITY:
        limit = max(limit, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, highest))
    elif limit < highest:
        limit = highest
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, highest))
    fitting = fitting_concurrency(wanted, processes, limit)
    if not fitting:
        raise Misconfigured(
            f"this process may open only {limit} files: run  ulimit -n {max(needed, 256)}  first"
        )
    if fitting < wanted:
        facts = {"limit": limit, "concurrency": fitting, "instead_of": wanted}
        log.warning("files.limited", extra={**facts, "change_with": f"ulimit -n {needed}"})
    return fitting
