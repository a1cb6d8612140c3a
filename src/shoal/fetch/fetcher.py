"""Make one attempt at a lease: robots.txt, headers and cookies, the client, and what the response means."""

import logging
import random
from collections.abc import Callable
from functools import partial
from time import monotonic, time
from typing import assert_never

from msgspec import structs

from shoal.fetch.contract import Attempt, Client, CountedTurn, Gate
from shoal.fetch.cookies import CookieJar
from shoal.fetch.empty_shell import find_empty_shell
from shoal.fetch.escalation.escalation import Escalation, LevelChoice
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.exits.ledger import ExitLedger
from shoal.fetch.headers import CrawlHeaders, is_conditional
from shoal.fetch.interpret import (
    Conditional,
    FetchedPage,
    Interpretation,
    Redirect,
    RedirectRules,
    interpret,
)
from shoal.fetch.levels import ClientChoice, ClientLevels
from shoal.fetch.robots import RobotsPolicy, RobotsUnavailable
from shoal.fetch.robots_txt import ALLOW_ALL, RobotsRules
from shoal.model.adaptive_delay import Signal, UsualTimes, signal_of
from shoal.model.configuration.block_rules import BlockRules
from shoal.model.exits.exit import ChosenExit, ExitWish, ExitWishes
from shoal.model.failure import Failure, FailureClass
from shoal.model.levels.ladder import BROWSER, PLAIN, Cause
from shoal.model.limits import FetchLimits
from shoal.model.outcome import Dead, Filtered, Lease, Released, Retry, RetryRules, judge
from shoal.model.page import NotSent, Response
from shoal.model.request import Request, trace_id
from shoal.model.url import host_key

MAX_TIMED_BYTES = 256 * 1024  # a larger body takes its time, which says nothing about its host

log = logging.getLogger(__name__)

NEXT_LEVEL_S = 0.5  # before a request is tried at the next level; its host's pace applies besides
NO_WISHES = ExitWishes()
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
        blocked_if: BlockRules | None = None,
        dice: Callable[[], float] = random.random,
        exits: ExitPool | None = None,
        wishes: ExitWishes = NO_WISHES,
        ledger: ExitLedger | None = None,
        levels: ClientLevels | None = None,
        clients: ClientChoice | None = None,
        escalation: Escalation | None = None,
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
        self._blocked_if = blocked_if or BlockRules()
        self._dice = dice
        self._usual_times = UsualTimes()
        self._exits = exits
        self._wishes = wishes
        self._ledger = ledger
        self._levels = levels
        self._clients = clients
        self._escalation = escalation

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        """Make one attempt. `etag` and `modified` are the validators of an archived copy, if there is one."""
        attempt = Attempt(lease)
        request = lease.request
        choice = await self._choose(attempt)
        if choice is None:
            return attempt
        slash = request.url.index("/", 8)
        rules = ALLOW_ALL if self._robots is None else self._robots.known(request.url[:slash])
        if rules is None:
            asked_at = monotonic()
            rules = await self._fetch_rules(attempt, request.url[:slash])
            attempt.timing.robots = attempt.timing.queue = monotonic() - asked_at
            if rules is None:
                return attempt
        attempt.crawl_delay = rules.delay
        if not rules.allows(request.url[slash:]):
            attempt.outcome = Filtered(FailureClass.ROBOTS, "robots.txt disallows it")
            return attempt

        turn = self._turn(lease, rules.delay)
        turn.timing = attempt.timing
        cookie = self._jar.header(request.url, time()) if self._jar is not None else ""
        headers = self._headers.of(request, cookie=cookie, etag=etag, modified=modified)
        client = self._client_for(request, choice.level)
        if isinstance(client, Failure):
            self._judge(attempt, client)
            return attempt
        send = partial(
            client.fetch,
            request.url,
            method=request.method,
            headers=headers,
            body=request.body,
            limits=self._limits,
            turn=turn,
        )
        via: ChosenExit | None = None
        if self._exits is None:
            answer = await send()
        else:
            wish = self._wishes.of(lease.host, kind=request.exit_kind, country=request.country)
            if not request.exit_kind:
                wish = self._exits.wish_for(lease.host, wish)
            if self._ledger is not None:
                await self._ledger.sync()
                wish = self._ledger.wish(wish)
            answer, via = await self._exits.send(
                lambda via: send(via=via), host=lease.host, wish=wish, url=request.url
            )
            attempt.timing.exit = via.exit.name if via is not None else ""
        attempt.sent = attempt.sent or turn.sends > 0
        if isinstance(answer, NotSent):
            attempt.outcome = Released(answer.delay)
            return attempt
        if isinstance(answer, Failure):
            self._judge(attempt, answer)
            return attempt
        attempt.response = answer
        sent = client.sent_headers(headers) if hasattr(client, "sent_headers") else headers
        attempt.headers = (("Host", host_key(request.url)), *sent)
        self._store_cookies(answer)
        ranged = answer.status == 206 and any(name.lower() == "range" for name, _ in headers)
        self._interpret(attempt, answer, has_copy=bool(etag or modified), ranged=ranged)
        if attempt.outcome is None and len(answer.wire) <= MAX_TIMED_BYTES:
            late = self._usual_times.is_late(lease.host, answer.elapsed)
            attempt.signal = Signal.LATE if late else Signal.NORMAL
        if self._exits is not None and via is not None:
            self._exits.report(via, lease.host, wish, _signal(attempt), url=lease.request.url)
            self._choose_last_exit(attempt, self._exits, wish)
        if self._escalation is not None and choice.pattern:
            self._learn(attempt, choice, self._escalation)
        return attempt

    def _choose_last_exit(self, attempt: Attempt, exits: ExitPool, wish: ExitWish) -> None:
        """Send the last attempt at a URL that its host refuses through the next kind of exits.

        A host with few URLs never has enough refusals to change its exits.
        """
        lease, outcome = attempt.lease, attempt.outcome
        is_next_last = isinstance(outcome, Retry) and lease.charged == self._retry.max_retries
        if not isinstance(outcome, Retry) or not is_next_last or lease.request.exit_kind:
            return
        if outcome.failure.failure_class is FailureClass.IP_BLOCKED and (kind := exits.next_kind(wish)):
            last = structs.replace(lease.request, exit_kind=kind)
            attempt.outcome = structs.replace(outcome, instead=last)

    def _client_for(self, request: Request, level: str) -> Client | Failure:
        if self._levels is not None:
            return self._levels.client(level)
        return self._client if self._clients is None else self._clients.of(request)

    async def _choose(self, attempt: Attempt) -> LevelChoice | None:
        """Return the level of an attempt; None: it is not made here, and has its outcome."""
        lease = attempt.lease
        request = lease.request
        if self._escalation is None:
            level = self._levels.of(request) if self._levels is not None else ""
            choice: LevelChoice | Filtered = LevelChoice(level or _level_of_pool(request.pool))
        else:
            if self._escalation.may_be_due:
                await self._escalation.sync()
            choice = self._escalation.choose(lease)
        if isinstance(choice, Filtered):
            attempt.outcome = choice
            return None
        attempt.timing.level = choice.level
        if self._escalation is not None and choice.level == BROWSER and self._levels is not None:
            attempt.outcome = Released(instead=self._escalation.move(request, choice))
            return None
        return choice

    def _learn(self, attempt: Attempt, choice: LevelChoice, escalation: Escalation) -> None:
        """Learn from a response; if it is a block or an empty shell, try the request at the next level."""
        lease, outcome, response = attempt.lease, attempt.outcome, attempt.response
        assert response is not None
        if isinstance(outcome, Retry | Dead) and outcome.failure.failure_class is FailureClass.ANTI_BOT:
            attempt.outcome = self._raise_level(lease, choice, escalation, outcome.failure) or outcome
        elif outcome is None and attempt.parse and response.status == 200:
            if (shell := find_empty_shell(response)) is not None:
                failure = Failure(FailureClass.NEEDS_BROWSER, str(shell), response.status)
                attempt.outcome = self._raise_level(lease, choice, escalation, failure)
                attempt.keep = attempt.outcome is not None
            elif self._blocked_if.to_check(response.url, 200, response.headers, response.body):
                attempt.at_next_level = partial(self._retry_later, lease, choice, escalation)
            else:
                escalation.fetched(lease, choice)

    def _raise_level(
        self, lease: Lease, choice: LevelChoice, escalation: Escalation, failure: Failure
    ) -> Retry | Filtered | None:
        """Return what becomes of a request whose level has failed; None: what would without levels."""
        is_shell = failure.failure_class is FailureClass.NEEDS_BROWSER
        # A shell is not parsed because its host had asked to wait before; it is moved once at most.
        if lease.rests >= self._retry.max_rests and not is_shell:
            return None
        cause = Cause.EMPTY_SHELL if is_shell else Cause.ANTI_BOT
        found = escalation.failed(lease, choice, cause, failure.reason)
        if not isinstance(found, Request):
            return found
        return Retry(failure, NEXT_LEVEL_S * (1 + self._dice()), charged=False, instead=found)

    def _retry_later(
        self, lease: Lease, choice: LevelChoice, escalation: Escalation, failure: Failure
    ) -> Retry | None:
        found = self._raise_level(lease, choice, escalation, failure)
        return found if isinstance(found, Retry) else None

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
            lines += response.set_cookies
            if lines:
                self._jar.store(response.url, lines, time())

    def _interpret(self, attempt: Attempt, response: Response, *, has_copy: bool, ranged: bool) -> None:
        request = attempt.lease.request
        conditional = Conditional.BY_CALLER if has_copy else Conditional.NO
        if request.headers and not has_copy and is_conditional(request):
            conditional = Conditional.BY_SPIDER
        meaning: Interpretation
        if (rule := self._blocked_if.find(response)) is not None:
            meaning = Failure(FailureClass.ANTI_BOT, f"blocked_if: {rule}", response.status)
        else:
            meaning = interpret(
                request, response, self._redirects, conditional=conditional, now=time(), ranged=ranged
            )
        if isinstance(meaning, Failure) and meaning.failure_class is FailureClass.ANTI_BOT:
            about = {"trace": trace_id(attempt.lease.fingerprint), "host": attempt.lease.host}
            log.info("page.blocked", extra={**about, "status": response.status, "reason": meaning.reason})
        match meaning:
            case FetchedPage(parse, following):
                attempt.parse = parse
                if following is not None and self._refused(following) is None:
                    attempt.following = following
            case Redirect(following):
                # Archived in any case: where a redirect leads is a link, which wider limits may admit later.
                attempt.refused = self._refused(following)
                attempt.following = None if attempt.refused else following
            case Failure():
                self._judge(attempt, meaning)
            case _:
                assert_never(meaning)

    def _refused(self, request: Request) -> FailureClass | None:
        if self._refuse is None or request.returned:  # it was in scope when it redirected
            return None
        return self._refuse(request.url, request.depth)

    def _judge(self, attempt: Attempt, failure: Failure) -> None:
        lease = attempt.lease
        attempt.outcome = judge(
            failure, attempt=lease.charged, rests=lease.rests, rules=self._retry, jitter=self._dice()
        )


def _level_of_pool(pool: str) -> str:
    return BROWSER if pool.startswith(BROWSER) else PLAIN


def _signal(attempt: Attempt) -> Signal:
    """Return what the response of an attempt says about its host."""
    outcome = attempt.outcome
    if isinstance(outcome, Retry | Dead):
        return signal_of(outcome.failure) or Signal.NORMAL
    return attempt.signal or Signal.NORMAL


def _after_robots(retry: Retry, unreachable: RobotsUnavailable) -> Retry:
    """Delay a retry until robots.txt is fetched again, and pause the whole host for the first few tries."""
    wait = unreachable.retry_in
    rest = max(retry.rest, wait) if unreachable.patient else retry.rest
    return Retry(retry.failure, max(retry.delay, wait), retry.charged, rest)
