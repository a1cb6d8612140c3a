"""Changes: pauses, hosts, dead letters, exits, deletion, seeds, submissions."""

import time
from dataclasses import replace

import msgspec

from shoal.model.api.control import (
    ChangedLetters,
    DeadLetterChoice,
    DeletedCrawl,
    HostChange,
    PausedCrawls,
    RobotsRefreshed,
)
from shoal.model.api.crawls import Nothing, OneCrawl
from shoal.model.api.hosts import HostInfo, HostLevel, LevelChange, OneHost
from shoal.model.api.listing import ExitInfo, ExitRest, OneExit
from shoal.model.api.problem import ApiError
from shoal.model.api.submission import (
    AddedSeeds,
    CrawlSubmission,
    NewSeeds,
    ScrapedPage,
    ScrapeRequest,
    SubmittedCrawl,
)
from shoal.model.levels.learned import HostLevels
from shoal.model.url import host_name
from shoal.server.access.gate import Caller
from shoal.server.routes.dead_letters import letter_filter
from shoal.server.routes.hosts import host_info, level_info
from shoal.server.state.context import ApiServer
from shoal.services.control import dead_letters
from shoal.services.control.delete import delete_json, open_deletion
from shoal.services.control.hosts import ClearHost, SetHost, refresh_robots, set_host
from shoal.services.control.levels import reset_level, set_level
from shoal.services.control.pause import pause_crawls
from shoal.services.proxies import exit_json, rest_exit
from shoal.services.remote import seeds
from shoal.services.store_address import public_address


async def submit_crawl(
    server: ApiServer, params: Nothing, body: CrawlSubmission, caller: Caller
) -> SubmittedCrawl:
    """Submit a crawl: URLs, or a spider that the operator allows. The same submission resumes it."""
    return await server.crawls.submit(body, caller.holder.role)


async def add_seeds(server: ApiServer, params: OneCrawl, body: NewSeeds) -> AddedSeeds:
    """Add start URLs to a crawl, with a verdict for each."""
    return await seeds.add_seeds(server.settings, params.crawl, body)


async def pause_crawl(server: ApiServer, params: OneCrawl) -> PausedCrawls:
    """Start no new requests of a crawl until it is resumed."""
    return PausedCrawls(crawls=await pause_crawls(server.dsn, params.crawl, paused=True), paused=True)


async def resume_crawl(server: ApiServer, params: OneCrawl) -> PausedCrawls:
    """End the pause of a crawl."""
    return PausedCrawls(crawls=await pause_crawls(server.dsn, params.crawl, paused=False), paused=False)


async def pause_all_crawls(server: ApiServer, params: Nothing) -> PausedCrawls:
    """Start no new requests of any crawl of the store until they are resumed."""
    return PausedCrawls(crawls=await pause_crawls(server.dsn, None, paused=True), paused=True)


async def resume_all_crawls(server: ApiServer, params: Nothing) -> PausedCrawls:
    """End the pause of every crawl of the store."""
    return PausedCrawls(crawls=await pause_crawls(server.dsn, None, paused=False), paused=False)


async def delete_crawl(server: ApiServer, params: OneCrawl) -> DeletedCrawl:
    """Delete a crawl from its store; outputs and archived pages stay."""
    async with open_deletion(server.dsn, params.crawl) as found:
        await found.delete()
        return msgspec.convert(delete_json(public_address(server.dsn), found.footprint), DeletedCrawl)


async def change_host(server: ApiServer, params: OneHost, body: HostChange) -> HostInfo:
    """Change the pace of a host, or pause it, in every crawl of the store.

    A new rate, `reset` and the end of a pause also end an adaptive slow-down: the answer has `slow` 1 then.
    """
    changed = await set_host(server.dsn, host_change(host_name(params.host), body, time.time()))
    server.live.hosts_changed()
    return host_info(changed)


def host_change(host: str, body: HostChange, now: float) -> SetHost | ClearHost:
    """Return the change that a message asks for."""
    if body == HostChange():
        raise ApiError(400, "bad_body", "give rate, concurrency, paused, rest_s or reset")
    if body.reset:
        if body != HostChange(reset=True):
            raise ApiError(400, "bad_body", "reset goes back to the settings: give nothing else with it")
        return ClearHost(host)
    rest = None if body.rest_s is None else now + body.rest_s if body.rest_s else 0.0
    interval = None if body.rate is None else 1 / body.rate if body.rate else 0.0
    return SetHost(host, interval, body.concurrency, rest, body.paused)


async def refresh_host_robots(server: ApiServer, params: OneHost) -> RobotsRefreshed:
    """Fetch the robots.txt of a host again before its next request."""
    name = host_name(params.host)
    await refresh_robots(server.dsn, name)
    return RobotsRefreshed(host=name, refreshed=True)


async def set_host_level(server: ApiServer, params: OneHost, body: LevelChange) -> HostLevel:
    """Set how the pages of a host are fetched, until it is set to auto."""
    return level_info(await set_level(server.dsn, host_name(params.host), body.level))


async def reset_host_level(server: ApiServer, params: OneHost) -> HostLevel:
    """Forget what was learned about the level of a host: its pages start at the first level again."""
    await reset_level(server.dsn, host_name(params.host))
    return level_info(HostLevels())


async def replay_dead_letters(server: ApiServer, params: Nothing, body: DeadLetterChoice) -> ChangedLetters:
    """Put dead letters back into the queue, with no attempts counted."""
    return ChangedLetters(count=await dead_letters.replay(server.dsn, chosen_letters(body)))


async def purge_dead_letters(server: ApiServer, params: Nothing, body: DeadLetterChoice) -> ChangedLetters:
    """Delete dead letters; their requests stay counted as dead."""
    return ChangedLetters(count=await dead_letters.purge(server.dsn, chosen_letters(body)))


def chosen_letters(body: DeadLetterChoice) -> dead_letters.DeadLetterFilter:
    if body.chooses_nothing:
        raise ApiError(400, "bad_body", "choose dead letters, or send all: true")
    return replace(letter_filter(body.query(), limit=body.limit), trace=body.trace)


async def rest_one_exit(server: ApiServer, params: OneExit, body: ExitRest) -> ExitInfo:
    """Use an exit no longer for some seconds, in every process of the store."""
    found = await rest_exit(server.settings, params.exit, body.seconds)
    return msgspec.convert(exit_json(found, time.time()), ExitInfo)


async def scrape_page(server: ApiServer, params: Nothing, body: ScrapeRequest) -> ScrapedPage:
    """Fetch one page now, and return it as Markdown, HTML, text or JSON."""
    return await server.scraper.scrape(body)
