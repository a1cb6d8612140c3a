"""From the options of a command to the plan of a crawl; nothing is opened but a file of start URLs."""

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.seeds import SeedFile
from shoal.cli.input.settings_loader import load_settings
from shoal.cli.input.target import read_target
from shoal.model.errors import Misconfigured
from shoal.services.crawl import CrawlPlan


def plan_crawl(options: CrawlOptions) -> CrawlPlan:
    """Build the plan; raise `Misconfigured` for the first option or setting that is not valid."""
    loaded = load_settings(options.settings(), config=options.config)
    listed = None if options.seeds is None else SeedFile(options.seeds)
    try:
        target = read_target(options.target or (), options.item or (), listed.first if listed else "")
    except Misconfigured:
        if listed is not None:
            listed.close()
        raise
    return CrawlPlan(
        source=target.source,
        settings=loaded.settings,
        name=options.crawl or "",
        seeds=target.seeds,
        listed=listed,
        sitemaps=tuple(options.sitemap or ()),
        outputs=tuple(options.out or ()),
        fresh=not options.resume,
        overrides=loaded.overrides,
    )
