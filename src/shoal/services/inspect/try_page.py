"""One URL through fetch and handler, as a crawl does it, but without a store: nothing is kept."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from shoal.engine.crawl_options import sandbox_rules, with_spider_options
from shoal.engine.seeding import crawl_rendering
from shoal.fetch.contract import Attempt
from shoal.fetch.empty_shell import find_empty_shell
from shoal.model.errors import Misconfigured
from shoal.model.page import ParseResult, ParseTask
from shoal.model.rendering import Rendering
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.model.settings import Settings
from shoal.model.url import canonical
from shoal.parse.pool import ParsePool, Poisoned
from shoal.services.inspect.one_page import fetch_page, page_task, reason_of
from shoal.spider.source import SpiderDescription, SpiderSource


class FetchPage(Protocol):
    """Fetches a page and where it redirects to; in a browser if `render` says how."""

    async def __call__(
        self, request: Request, settings: Settings, *, render: Rendering | None = None
    ) -> Attempt: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPage:
    """What a page is, and what the spider made of it."""

    spider: str
    url: str  # after redirects
    redirects: Sequence[str]  # URLs that led there
    status: int
    content_type: str
    body_bytes: int
    handler: str = ""  # empty: it was not run, or the spider has none for this page
    problem: str = ""  # why the page brings nothing; one line
    traceback: str = ""
    items: Sequence[Mapping[str, object]] = ()
    rejected: Sequence[Mapping[str, object]] = ()  # items that do not fit their model, with the reason
    dropped_items: Mapping[str, int] = field(default_factory=dict)  # by item hooks, by reason
    requests: Sequence[Request] = ()
    skipped: Sequence[tuple[str, str]] = ()  # links that are not followed, and the rule
    unmatched: Sequence[str] = ()  # queries that matched nothing
    rendered: bool = False  # in a browser
    empty_without_javascript: str = ""  # how that shows; empty: it has content, or was rendered
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase


async def try_page(
    source: SpiderSource,
    url: str,
    settings: Settings,
    overrides: frozenset[str],
    *,
    handler: str = "",
    fetch: FetchPage = fetch_page,
) -> TriedPage:
    """Load a spider, fetch a URL (empty: its first start URL) and run its handler; `handler` names another.

    Raises `Misconfigured` if the spider cannot be loaded, and `Rejected` if there is no response.
    """
    began = time.monotonic()
    async with ParsePool.open(
        source, procs=1, limits=settings.parse, sandbox=sandbox_rules(settings)
    ) as pool:
        spider = pool.description
        loaded = time.monotonic()
        settings = with_spider_options(settings, spider, overrides)
        request = chosen_request(spider, url, handler)
        attempt = await fetch(request, settings, render=request.render or crawl_rendering(settings, spider))
        fetched = time.monotonic()
        task = page_task(attempt)
        response = attempt.response
        assert response is not None
        seconds = {
            "load spider": loaded - began,
            "robots.txt and pace": max(fetched - loaded - response.elapsed, 0.0),
            "response": response.elapsed,
        }
        shell = None if task.rendered is not None else find_empty_shell(response)
        facts = TriedPage(
            spider=spider.name,
            url=task.url,
            redirects=task.request.chain,
            status=task.status,
            content_type=response.header("content-type"),
            body_bytes=len(task.body),
            rendered=task.rendered is not None,
            empty_without_javascript="" if shell is None else shell.evidence,
            seconds=seconds,
        )
        if attempt.outcome is not None and task.status not in spider.statuses:
            return replace(facts, problem=f"a crawl runs no handler on it: {reason_of(attempt)}")
        seeds = [*(one.url for one in spider.start), request.url, task.url]
        scope = Scope.of(settings.crawl, seeds, hosts=spider.hosts, limits=settings.links)
        pool.configure(msgspec.structs.replace(scope, name_skipped=True, explain=True))
        answer = await _parse(pool, task)
    if isinstance(answer, Poisoned):
        return replace(facts, problem=f"{answer.cause}: {answer.reason}")
    return _parsed(facts, answer)


def chosen_request(spider: SpiderDescription, url: str, handler: str) -> Request:
    """Return the request to try: for `url`, as the spider's own start request if it has one for it."""
    if handler and handler not in spider.routes:
        raise Misconfigured(
            f"spider {spider.name!r} has no handler {handler!r}; it has {', '.join(spider.routes)}"
        )
    if not url and not spider.start:
        raise Misconfigured(f"spider {spider.name!r} has no start URL: name a URL to try")
    wanted = canonical(url) if url else spider.start[0].url
    request = next((one for one in spider.start if one.url == wanted), Request(url=wanted))
    return msgspec.structs.replace(request, route=handler) if handler else request


async def _parse(pool: ParsePool, task: ParseTask) -> ParseResult | Poisoned:
    answered: asyncio.Future[ParseResult | Poisoned] = asyncio.get_running_loop().create_future()
    pool.submit(task, answered.set_result)
    return await answered


def _parsed(facts: TriedPage, result: ParseResult) -> TriedPage:
    report, fault = result.report, result.fault
    queries = report.queries if report is not None else {}
    handler = report.handler if report is not None else ""
    problem = fault.reason if fault is not None else result.partial
    if not problem and not handler:
        problem = "the spider has no handler for this URL"
    return replace(
        facts,
        handler=handler,
        problem=problem,
        traceback=fault.detail if fault is not None else "",
        items=[msgspec.json.decode(item.json) for item in result.items],
        rejected=[msgspec.json.decode(item.json) for item in result.rejected],
        dropped_items=result.discarded,
        requests=[unpack(packed) for packed in result.requests],
        skipped=result.skipped,
        unmatched=[query for query, matches in queries.items() if not matches],
        seconds={**facts.seconds, "handler": report.seconds if report is not None else 0.0},
    )


def tried_json(tried: TriedPage) -> dict[str, object]:
    """Return a tried page for --json; times in seconds."""
    return {
        "spider": tried.spider,
        "url": tried.url,
        "redirects": list(tried.redirects),
        "status": tried.status,
        "content_type": tried.content_type,
        "bytes": tried.body_bytes,
        "rendered": tried.rendered,
        "empty_without_javascript": tried.empty_without_javascript or None,
        "handler": tried.handler or None,
        "problem": tried.problem or None,
        "traceback": tried.traceback,
        "items": list(tried.items),
        "rejected": list(tried.rejected),
        "dropped_items": dict(tried.dropped_items),
        "requests": [
            {"url": one.url, "method": one.method, "priority": one.priority, "handler": one.route or None}
            for one in tried.requests
        ],
        "skipped": [{"url": url, "rule": rule} for url, rule in tried.skipped],
        "unmatched": list(tried.unmatched),
        "seconds": {phase: round(spent, 4) for phase, spent in tried.seconds.items()},
    }
