"""Make one attempt at a lease: robots.txt, headers and cookies, the client, and what the response means."""

import random
from collections.abc import Callable
from time import time
from typing import assert_never

from shoal.fetch.contract import Attempt, Client, CountedTurn, Gate
from shoal.fetch.cookies import CookieJar
from shoal.fetch.headers import CrawlHeaders, is_conditional
from shoal.fetch.interpret import Conditional, FetchedPage, Redirect, RedirectRules, interpret
from shoal.fetch.robots import RobotsPolicy, RobotsUnavailable
from shoal.fetch.robots_txt import ALLOW_ALL, RobotsRules
from shoal.model.failure import POLICY, Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.outcome import Filtered, Lease, Released, Retry, RetryRules, judge
from shoal.model.page import NotSent, Response
from shoal.model.request import Request
from shoal.model.url import host_key

Refuse = Callable[[str, int], FailureClass | None]
"""Returns the rule that filters a redirect target, by URL and depth; None if it is admitted."""


class HttpFetcher:
    """Makes attempts at the leases of one crawl. Client, gate and robots may be shared with other crawls."""

    def __init__(
        self,
        client: Client,
        gate: Gate,
        redirects: RedirectRules,
        headers: CrawlHeaders,
        *,
        robots: RobotsPolicy | None = None,
        jar: CookieJar | None = None,
        refuse: Refuse | None = None,
        limits: FetchLimits | None = None,
        retry: RetryRules | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._gate = gate
        self._redirects = redirects
        self._headers = headers
        self._robots = robots
        self._jar = jar
        self._refuse = refuse
        self._limits = limits or FetchLimits()
        self._retry = retry or RetryRules()
        self._dice = dice

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        """Make one attempt. `etag` and `modified` are the validators of an archived copy, if there is one."""
        attempt = Attempt(lease)
        request = lease.request
        slash = request.url.index("/", 8)
        rules = ALLOW_ALL if self._robots is None else self._robots.known(request.url[:slash])
        if rules is None:
            rules = await self._fetch_rules(attempt, request.url[:slash])
            if rules is None:
                return attempt
        attempt.crawl_delay = rules.delay
        if not rules.allows(request.url[slash:]):
            attempt.outcome = Filtered(FailureClass.ROBOTS, "robots.txt disallows it")
            return attempt

        turn = self._turn(lease, rules.delay)
        cookie = self._jar.header(request.url, time()) if self._jar is not None else ""
        headers = self._headers.of(request, cookie=cookie, etag=etag, modified=modified)
        answer = await self._client.fetch(
            request.url,
            method=request.method,
            headers=headers,
            body=request.body,
            limits=self._limits,
            turn=turn,
        )
        if isinstance(answer, NotSent):
            attempt.outcome = Released(answer.delay)
            return attempt
        attempt.sent = attempt.sent or turn.sends > 0
        if isinstance(answer, Failure):
            self._judge(attempt, answer)
            return attempt
        attempt.response = answer
        attempt.headers = (("Host", host_key(request.url)), *headers)
        self._store_cookies(answer)
        ranged = answer.status == 206 and any(name.lower() == "range" for name, _ in headers)
        self._interpret(attempt, answer, has_copy=bool(etag or modified), ranged=ranged)
        return attempt

    async def _fetch_rules(self, attempt: Attempt, origin: str) -> RobotsRules | None:
        """Return the rules of robots.txt; None if it is unavailable, and then the attempt has its outcome."""
        assert self._robots is not None
        lease = attempt.lease
        turns: list[CountedTurn] = []

        def turn_for(host: str) -> CountedTurn:
            key = lease.host if host == host_key(lease.request.url) else host
            turns.append(self._gate.turn(key, interval=lease.interval, burst=lease.burst))
            return turns[-1]

        answer = await self._robots.rules(origin, turn_for)
        attempt.sent = any(turn.sends for turn in turns)
        if isinstance(answer, RobotsRules):
            attempt.new_rules = bool(turns)  # else another request has fetched it, or it is unchanged
            return answer
        if isinstance(answer, NotSent):
            attempt.outcome = Released(answer.delay)
            return None
        self._judge(attempt, answer.failure)
        if isinstance(attempt.outcome, Retry):
            attempt.outcome = _after_robots(attempt.outcome, answer)
        return None

    def _turn(self, lease: Lease, delay: float | None) -> CountedTurn:
        if delay is not None and delay > lease.interval:
            return self._gate.turn(lease.host, interval=delay)
        return self._gate.turn(lease.host, interval=lease.interval, burst=lease.burst)

    def _store_cookies(self, response: Response) -> None:
        if self._jar is not None:
            lines = [value for name, value in response.headers if name == "set-cookie"]
            if lines:
                self._jar.store(response.url, lines, time())

    def _interpret(self, attempt: Attempt, response: Response, *, has_copy: bool, ranged: bool) -> None:
        request = attempt.lease.request
        conditional = Conditional.BY_CALLER if has_copy else Conditional.NO
        if request.headers and not has_copy and is_conditional(request):
            conditional = Conditional.BY_SPIDER
        meaning = interpret(
            request, response, self._redirects, conditional=conditional, now=time(), ranged=ranged
        )
        match meaning:
            case FetchedPage(parse, following):
                attempt.parse = parse
                if following is not None and self._refused(following) is None:
                    attempt.following = following
            case Redirect(following):
                if rule := self._refused(following):
                    reason = f"redirects to {following.url}"
                    self._judge(attempt, Failure(rule, reason, response.status))
                else:
                    attempt.following = following
            case Failure():
                self._judge(attempt, meaning)
            case _:
                assert_never(meaning)

    def _refused(self, request: Request) -> FailureClass | None:
        return self._refuse(request.url, request.depth) if self._refuse is not None else None

    def _judge(self, attempt: Attempt, failure: Failure) -> None:
        lease = attempt.lease
        attempt.blocked = POLICY[failure.failure_class].blocks
        attempt.outcome = judge(
            failure, attempt=lease.attempt, rests=lease.rests, rules=self._retry, jitter=self._dice()
        )


def _after_robots(retry: Retry, unreachable: RobotsUnavailable) -> Retry:
    """Delay a retry until robots.txt is fetched again, and pause the whole host for the first few tries."""
    wait = unreachable.retry_in
    rest = max(retry.rest, wait) if unreachable.patient else retry.rest
    return Retry(retry.failure, max(retry.delay, wait), retry.charged, rest)
