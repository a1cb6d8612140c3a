"""From what somebody typed to what a crawl is told; nothing is opened yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.cli.layers import load_settings
from shoal.cli.target import read_target
from shoal.runtime.plan import CrawlPlan


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody typed after `shoal crawl`, nothing looked up yet."""

    targets: Sequence[str]
    items: Sequence[str] = ()
    sitemaps: Sequence[str] = ()
    outputs: Sequence[str] = ()
    crawl: str = ""
    fresh: bool = False
    flags: Mapping[str, object] = field(default_factory=dict)
    config: str | None = None


def plan_of(asked: Asked) -> CrawlPlan:
    """Work out what to crawl and how; raises `Misconfigured` for what cannot be."""
    target = read_target(asked.targets, asked.items)
    layers = load_settings(asked.flags, config=asked.config)
    return CrawlPlan(
        source=target.source,
        settings=layers.settings,
        name=asked.crawl,
        seeds=target.seeds,
        sitemaps=tuple(asked.sitemaps),
        outputs=tuple(asked.outputs),
        fresh=asked.fresh,
        overrides=layers.overrides,
    )
