"""One page, fetched as a crawl would: guard, robots.txt, limits and redirects; but no store and no retry."""

import asyncio
import math

from shoal.engine.crawl_options import pace_of
from shoal.engine.fetchers import open_fetcher
from shoal.fetch.contract import Attempt
from shoal.fetch.cookies import CookieJar
from shoal.model.errors import Rejected
from shoal.model.failure import FailureClass
from shoal.model.outcome import Dead, Filtered, Gone, Lease, Released, Retry
from shoal.model.page import ParseTask
from shoal.model.request import Request
from shoal.model.settings import Settings
from shoal.model.url import canonical, fingerprint_of, host_key, origin_of

_ADVICE = {
    FailureClass.ROBOTS: "; --no-robots fetches it all the same",
    FailureClass.REFUSED: "; --allow-private allows addresses of this machine and its network",
}


async def look_at(url: str, settings: Settings) -> ParseTask:
    """Fetch a page and where it redirects to; raise `Rejected`, with the reason, if no answer can be had.

    An answer is an answer, whatever its status: a person who looks at a page wants to see the 404, too.
    """
    pace = pace_of(settings.crawl)
    request = Request(url=canonical(url))
    async with open_fetcher(settings, jar=CookieJar(), home=[origin_of(request.url)]) as fetcher:
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
                return _page(attempt)


def _page(attempt: Attempt) -> ParseTask:
    request, response = attempt.lease.request, attempt.response
    if response is None:
        raise Rejected(f"{request.url}: {_reason(attempt)}")
    return ParseTask(
        0,
        attempt.lease.fingerprint,
        request,
        response.url,
        response.status,
        response.headers,
        response.body,
        response.fetched_at,
    )


def _reason(attempt: Attempt) -> str:
    match attempt.outcome:
        case Filtered(rule=rule, reason=reason):
            return f"{reason}{_ADVICE.get(rule, '')}"
        case Retry(failure=failure) | Dead(failure=failure):
            return f"{failure.failure_class}: {failure.reason}{_ADVICE.get(failure.failure_class, '')}"
        case Gone(status=status):
            return f"status {status}"
    return "no answer"
