"""Add start URLs to a crawl that exists."""

from shoal.model.api.submission import AddedSeeds, NewSeeds
from shoal.model.request import FINGERPRINT_KEY, Link, Request
from shoal.model.settings import Settings
from shoal.services.remote.submission import accepted_urls, judge_seeds
from shoal.stores.contract.store import require_crawl
from shoal.stores.open import open_store

BATCH = 200


async def add_seeds(settings: Settings, crawl: str, seeds: NewSeeds) -> AddedSeeds:
    """Add the URLs that are accepted; those that the crawl knows are not added again."""
    verdicts = judge_seeds(seeds.urls, settings)
    urls = accepted_urls(verdicts)
    added = 0
    async with open_store(settings.store) as store:
        require_crawl(crawl, await store.crawls.names())
        live = store.workers.owner() is not None or bool(await store.workers.all())
        key = await store.frontier.value(crawl, FINGERPRINT_KEY) or b""
        async with store.change([crawl]) as changes:
            for begin in range(0, len(urls), BATCH):
                links = [Link.to(Request(url=url), key) for url in urls[begin : begin + BATCH]]
                added += await changes.add_seeds(crawl, links)
    return AddedSeeds(
        crawl=crawl,
        verdicts=verdicts,
        accepted=len(urls),
        refused=len(verdicts) - len(urls),
        added=added,
        note="" if live else "no process works on this crawl now: submit it again to resume it",
    )
