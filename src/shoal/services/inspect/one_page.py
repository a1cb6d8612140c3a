"""One page, fetched as a crawl would: guard, robots.txt, limits and redirects; but no store and no retry."""

import asyncio
import math
from functools import partial

from shoal.engine.crawl_options import pace_of
from shoal.engine.fetchers import open_fetcher, open_rendering_fetcher
from shoal.fetch.contract import Attempt
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher
from shoal.model.errors import Rejected
from shoal.model.failure import FailureClass
from shoal.model.outcome import Dead, Filtered, Gone, Lease, Released, Retry
from shoal.model.page import ParseTask
from shoal.model.rendering import Rendering
from shoal.model.request import Request
from shoal.model.settings import Settings
from shoal.model.url import canonical, fingerprint_of, host_key, origin_of

_ADVICE = {
    FailureClass.ROBOTS: "; --no-robots fetches it all the same",
    FailureClass.REFUSED: "; --allow-private allows addresses of this machine and its network",
}


async def look_at(url: str, settings: Settings, *, render: Rendering | None = None) -> ParseTask:
    """Fetch a page and where it redirects to; raise `Rejected`, with the reason, if no answer can be had.

    An answer is an answer, whatever its status: a person who looks at a page wants to see the 404, too.
    """
    return page_task(await fetch_page(Request(url=canonical(url)), settings, render=render))


async def fetch_page(request: Request, settings: Settings, *, render: Rendering | None = None) -> Attempt:
    """Fetch a page and where it redirects to, once: nothing is retried. With `render`, in a browser."""
    opening = open_fetcher if render is None else partial(open_rendering_fetcher, rendering=render)
    async with opening(settings, jar=CookieJar(), home=[origin_of(request.url)]) as fetcher:
        return await follow(fetcher, request, settings)


async def follow(fetcher: HttpFetcher, request: Request, settings: Settings) -> Attempt:
    """Fetch a page and where it redirects to, at the pace of the settings, with a fetcher that is open."""
    pace = pace_of(settings.crawl)
    while True:  # ends: the fetcher counts redirects, and a host's turn comes
        fingerprint = fingerprint_of(request.method, request.url)
        host = host_key(request.url)
        lease = Lease("", fingerprint, 0, host, request, 1, 0, 0, math.inf, pace.interval, pace.burst)
        attempt = await fetcher.attempt(lease)
        if isinstance(attempt.outcome, Released):
            await asyncio.sleep(attempt.outcome.delay)
        elif attempt.outcome is None and attempt.following is not None and not attempt.parse:
            request = attempt.following
        else:
            return attempt


def page_task(attempt: Attempt) -> ParseTask:
    """Return the task that parses a page; raise `Rejected`, with the reason, if there was no response."""
    request, response = attempt.lease.request, attempt.response
    if response is None:
        raise Rejected(f"{request.url}: {reason_of(attempt)}")
    return ParseTask(
        0,
        attempt.lease.fingerprint,
        request,
        response.url,
        response.status,
        response.headers,
        response.body,
        response.fetched_at,
        rendered=response.rendered,
    )


def reason_of(attempt: Attempt) -> str:
    """Return why an attempt brought no page that a crawl would parse, and what to change."""
    match attempt.outcome:
        case Filtered(rule=rule, reason=reason):
            return f"{reason}{_ADVICE.get(rule, '')}"
        case Retry(failure=failure) | Dead(failure=failure):
            return f"{failure.failure_class}: {failure.reason}{_ADVICE.get(failure.failure_class, '')}"
        case Gone(status=status):
            return f"status {status}"
    return "no answer"
