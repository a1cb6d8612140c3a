"""From what somebody typed to what a crawl is told; nothing is opened yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.cli.input.seeds import SeedFile
from shoal.cli.input.settings_loader import load_settings
from shoal.cli.input.target import read_target
from shoal.engine.plan import CrawlPlan
from shoal.model.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody typed after `shoal crawl`, nothing looked up yet."""

    targets: Sequence[str]
    items: Sequence[str] = ()
    sitemaps: Sequence[str] = ()
    seeds: str | None = None  # a file of start URLs
    outputs: Sequence[str] = ()
    crawl: str = ""
    fresh: bool = False
    flags: Mapping[str, object] = field(default_factory=dict)
    config: str | None = None


# The flags that set something, and what.
_SETTINGS = {
    "store": "store",
    **{
        name: f"crawl.{name}"
        for name in (
            *("follow", "same_host", "depth", "max_pages", "rate", "per_host", "concurrency", "robots"),
            *("allow_private", "user_agent", "procs", "max_dead"),
        )
    },
}


def asked_of(given: Mapping[str, Any]) -> Asked:
    """Gather what was given after `shoal crawl`, or a command that takes the same."""
    return Asked(
        targets=given["target"] or (),
        items=given["item"] or (),
        sitemaps=given["sitemap"] or (),
        seeds=given["seeds"],
        outputs=given["out"] or (),
        crawl=given["crawl"] or "",
        fresh=not given["resume"],
        flags={key: given[name] for name, key in _SETTINGS.items() if given[name] is not None},
        config=given["config"],
    )


def plan_of(asked: Asked) -> CrawlPlan:
    """Work out what to crawl and how; raises `Misconfigured` for what cannot be."""
    layers = load_settings(asked.flags, config=asked.config)
    listed = None if asked.seeds is None else SeedFile(asked.seeds)
    try:
        target = read_target(asked.targets, asked.items, listed.first if listed else "")
    except Misconfigured:
        if listed is not None:
            listed.close()
        raise
    return CrawlPlan(
        source=target.source,
        settings=layers.settings,
        name=asked.crawl,
        seeds=target.seeds,
        listed=listed,
        sitemaps=tuple(asked.sitemaps),
        outputs=tuple(asked.outputs),
        fresh=asked.fresh,
        overrides=layers.overrides,
    )
