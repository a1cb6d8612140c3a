"""From the options of a command to the plan of a crawl; nothing is opened but a file of start URLs."""

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.seeds import SeedFile
from shoal.cli.input.settings_loader import load_settings
from shoal.cli.input.target import read_target
from shoal.model.errors import Misconfigured
from shoal.services.crawl import CrawlPlan


def _seed_list(options: CrawlOptions, store: str) -> SeedFile | None:
    """Open the start URLs of --seeds and --query."""
    if options.seeds is None and options.query is None:
        return None
    if "auto" in (options.sitemap or ()):
        raise Misconfigured(
            "--sitemap auto needs start URLs on the command line or in the spider, not --seeds or --query"
        )
    if options.query is None:
        return SeedFile(options.seeds or "")
    from shoal.services.commands.seed_query import QueryBytes, query_name, query_urls

    rows = query_urls(options.seeds, options.query, store=store)
    return SeedFile(query_name(options.seeds), QueryBytes(rows))


def plan_crawl(options: CrawlOptions) -> CrawlPlan:
    """Build the plan; raise `Misconfigured` for the first option or setting that is not valid."""
    if options.again and not options.resume:
        raise Misconfigured("--again and --fresh contradict each other: --again resumes what was interrupted")
    loaded = load_settings(options.settings(), config=options.config)
    listed = _seed_list(options, loaded.settings.store)
    try:
        target = read_target(
            options.target or (),
            options.item or (),
            listed.first if listed else "",
            options.argument or (),
            sitemaps=options.sitemap or (),
        )
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
        again=options.again,
        confirmed=options.yes,
        dry_run=options.dry_run,
        overrides=loaded.overrides,
        typed=loaded.typed,
    )
