"""Fetch and cache robots.txt: once per site and day at most, however many requests wait for it.

How the response to a robots.txt request is read, by RFC 9309:

    2xx                                its rules, from the first `fetch.robots_bytes`; no more is read
    4xx, redirects that lead nowhere   the site has no robots.txt: everything is allowed
    429, 5xx, no answer                unreachable: nothing is allowed for now

It is fetched again after a day, or after the `max-age` of its Cache-Control header if that is shorter, but
not within `min_ttl` seconds. The rules are kept in memory; every `min_ttl` seconds the store is asked whether
it still has the same file. So a file that was deleted there (`shoal host refresh-robots`), or that another
worker has fetched again, takes effect in every process after that time.

An unavailable robots.txt says nothing about pages, so they are not filtered. They fail with the class of the
robots.txt request and are retried as after any other failure; robots.txt is fetched again at growing
intervals. For the first `PATIENT_TRIES` tries in a row the whole host is paused in between, so that the
requests queued behind the first few keep their attempts: an outage of minutes costs only time. After that the
host's requests become dead letters as they come, and can be replayed: a crawl of a dead host must finish.

Rules belong to an origin (scheme, host, port). Redirects are followed at once, under the guard and the gate.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import time
from typing import Protocol

import msgspec

from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn
from shoal.fetch.interpret import REDIRECT_STATUSES, RedirectRules, error_of, resolve
from shoal.fetch.robots_txt import ALLOW_ALL, RobotsRules, parse, product_token
from shoal.model.failure import POLICY, Action, Failure, FailureClass
from shoal.model.limits import MIB, FetchLimits
from shoal.model.page import NotSent, Response
from shoal.model.url import host_key

log = logging.getLogger(__name__)

LIFETIME_S = 86_400.0
MIN_TTL_S = 60.0  # the defaults of crawl.robots_min_ttl and crawl.max_crawl_delay
MAX_CRAWL_DELAY_S = 60.0
MAX_INLINE_BYTES = 8 * 1024  # parsed in a few ms at worst; larger ones are parsed in a thread
MAX_HOPS = 5
PATIENT_TRIES = 7  # tries in a row: four minutes
FIRST_WAIT_S, MAX_WAIT_S = 2.0, 300.0
SHORTEST_WAIT_S = 0.1  # a host that is paused is asked about again
MAX_CACHE_BYTES = 32 * MIB
MAX_DOWN_ORIGINS = 10_000  # unreachable origins remembered
_MAX_AGE = re.compile(r"\bmax-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)


class RobotsRecord(msgspec.Struct, frozen=True):
    """A robots.txt as it is stored."""

    fetched_at: float  # epoch seconds
    body: bytes | None  # None: the site has none
    ttl: float = LIFETIME_S  # seconds for which it is valid

    @property
    def expires(self) -> float:
        return self.fetched_at + self.ttl


Load = Callable[[str], Awaitable[bytes | None]]
Save = Callable[[str, bytes, float], Awaitable[None]]
"""Stores the record of an origin, packed, until it expires, in epoch seconds."""


class RobotsClient(Protocol):
    """A client that can stop reading: see `HttpClient.fetch`."""

    async def fetch(
        self, url: str, *, headers: Headers, limits: FetchLimits, turn: SendTurn | None, first_bytes: int
    ) -> Response | Failure | NotSent: ...


class RobotsUnavailable(msgspec.Struct, frozen=True):
    """robots.txt could not be fetched, so nothing may be fetched for now."""

    failure: Failure
    retry_in: float  # seconds until it is fetched again
    patient: bool  # pause the whole host until then


class _Cached(msgspec.Struct, frozen=True):
    rules: RobotsRules
    record: RobotsRecord
    check_at: float  # when to look at the store again


class _Down(msgspec.Struct, frozen=True):
    failure: Failure
    tries: int
    retry_at: float


class RobotsPolicy:
    """The robots.txt rules of every origin, for the product token in `token` (a token or a user agent).

    `load` and `save` persist packed `RobotsRecord`s by origin. A Crawl-delay counts up to `max_delay`.
    """

    def __init__(
        self,
        client: RobotsClient,
        redirects: RedirectRules,
        *,
        token: str,
        headers: Headers = (),
        limits: FetchLimits | None = None,
        max_delay: float = MAX_CRAWL_DELAY_S,
        min_ttl: float = MIN_TTL_S,
        load: Load | None = None,
        save: Save | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._client = client
        self._redirects = redirects
        self._token = product_token(token)
        self._headers = headers
        self._limits = limits or FetchLimits()
        self._max_delay = max_delay
        self._min_ttl = min_ttl
        self._load = load
        self._save = save
        self._clock = clock
        self._kept: OrderedDict[str, _Cached] = OrderedDict()  # by origin
        self._weight = 0
        self._parsing = asyncio.Lock()
        self._down: OrderedDict[str, _Down] = OrderedDict()
        self._fetching: dict[str, asyncio.Event] = {}  # origin -> set when its robots.txt has been fetched

    def known(self, origin: str) -> RobotsRules | None:
        """Return the cached rules; None if they are not cached, or have to be checked."""
        kept = self._kept.get(origin)
        return kept.rules if kept is not None and kept.check_at > self._clock() else None

    async def rules(
        self, origin: str, turn: Callable[[str], SendTurn]
    ) -> RobotsRules | RobotsUnavailable | NotSent:
        """Return the rules, and fetch them if necessary. `turn` returns a turn at the gate for a host."""
        while True:
            if (rules := self.known(origin)) is not None:
                return rules
            down = self._down.get(origin)
            if down is not None and down.retry_at > self._clock():
                return RobotsUnavailable(
                    down.failure, down.retry_at - self._clock(), down.tries <= PATIENT_TRIES
                )
            fetching = self._fetching.get(origin)
            if fetching is None:
                return await self._load_or_fetch(origin, turn)
            await fetching.wait()  # then check again: the task that fetched may have been cancelled

    async def wait_for_rules(self, origin: str, turn: Callable[[str], SendTurn]) -> RobotsRules | None:
        """Return the rules, however long it takes to have them; None: robots.txt is unavailable."""
        while isinstance(  # noqa: ASYNC110 - no event says that a turn has come
            found := self.known(origin) or await self.rules(origin, turn), NotSent
        ):
            await asyncio.sleep(max(found.delay, SHORTEST_WAIT_S))
        return found if isinstance(found, RobotsRules) else None

    async def _load_or_fetch(
        self, origin: str, turn: Callable[[str], SendTurn]
    ) -> RobotsRules | RobotsUnavailable | NotSent:
        self._fetching[origin] = asyncio.Event()
        try:
            record = await self._load_record(origin)
            if record is None:
                answer = await self._fetch(origin, turn)
                if isinstance(answer, NotSent):
                    return answer
                if isinstance(answer, Failure):
                    return self._note_down(origin, answer)
                record = answer
                if self._save is not None:
                    await self._save(origin, msgspec.msgpack.encode(record), record.expires)
            self._down.pop(origin, None)
            return await self._keep(origin, record)
        finally:
            self._fetching.pop(origin).set()

    async def _load_record(self, origin: str) -> RobotsRecord | None:
        packed = await self._load(origin) if self._load is not None else None
        if packed is None:
            return None
        try:
            record = msgspec.msgpack.decode(packed, type=RobotsRecord)
        except msgspec.MsgspecError:
            return None  # written by another version: fetch it again
        return record if record.fetched_at <= self._clock() < record.expires else None

    async def _fetch(self, origin: str, turn: Callable[[str], SendTurn]) -> RobotsRecord | Failure | NotSent:
        """Return robots.txt as it is stored, or why it is unavailable."""
        url, none = f"{origin}/robots.txt", RobotsRecord(self._clock(), None)
        for hop in range(MAX_HOPS + 1):
            answer = await self._client.fetch(
                url,
                headers=self._headers,
                limits=self._limits,
                turn=turn(host_key(url)),
                first_bytes=self._limits.robots_bytes,
            )
            if isinstance(answer, Failure) and hop > 0 and answer.failure_class is FailureClass.REFUSED:
                return none
            if not isinstance(answer, Response):
                return answer
            if answer.status not in REDIRECT_STATUSES:
                content = _content(answer, self._clock(), self._limits.robots_bytes)
                if isinstance(content, Failure):
                    return content
                ttl = lifetime(answer.header("cache-control"), min_ttl=self._min_ttl)
                return RobotsRecord(self._clock(), content, ttl)
            target = resolve(url, answer.header("location"), self._redirects)
            if isinstance(target, Failure):
                return none
            url = target
            del answer  # while the client waits for memory, it must not be held here
        return none

    async def _keep(self, origin: str, record: RobotsRecord) -> RobotsRules:
        before = self._kept.get(origin)
        if before is not None and before.record == record:
            rules = before.rules
        else:
            rules = await self._parse(record)
            if rules.delay is not None and rules.delay > self._max_delay:
                about = {"origin": origin, "asked_s": rules.delay, "used_s": self._max_delay}
                log.warning("robots.delay_capped", extra={**about, "setting": "crawl.max_crawl_delay"})
                rules.delay = self._max_delay
        check_at = record.expires
        if self._load is not None:
            check_at = min(check_at, self._clock() + self._min_ttl)
        self._drop(origin)
        self._kept[origin] = _Cached(rules, record, check_at)
        self._weight += rules.weight
        while self._weight > MAX_CACHE_BYTES and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))
        return rules

    async def _parse(self, record: RobotsRecord) -> RobotsRules:
        body, size = record.body, self._limits.robots_bytes
        if body is None:
            return ALLOW_ALL
        if len(body) <= MAX_INLINE_BYTES:
            return parse(body, self._token, max_bytes=size)
        # A thread for this one file, which ends with it: they are rare. One at a time: they are large.
        async with self._parsing:
            thread = ThreadPoolExecutor(max_workers=1)
            try:
                work = partial(parse, body, self._token, max_bytes=size)
                return await asyncio.get_running_loop().run_in_executor(thread, work)
            finally:
                thread.shutdown(wait=False)

    def _drop(self, origin: str) -> None:
        if origin in self._kept:
            self._weight -= self._kept.pop(origin).rules.weight

    def _note_down(self, origin: str, failure: Failure) -> RobotsUnavailable:
        before = self._down.pop(origin, None)
        tries = before.tries + 1 if before is not None else 1
        wait = min(FIRST_WAIT_S * 2 ** min(tries - 1, 20), MAX_WAIT_S)
        wait = max(wait, failure.retry_after or 0.0)
        failure = _for_pages(failure)
        self._down[origin] = _Down(failure, tries, self._clock() + wait)
        if len(self._down) > MAX_DOWN_ORIGINS:
            self._down.popitem(last=False)
        return RobotsUnavailable(failure, wait, tries <= PATIENT_TRIES)


def lifetime(cache_control: str, *, min_ttl: float) -> float:
    """Return for how many seconds a robots.txt is valid: as its max-age says, within a floor and a day."""
    found = _MAX_AGE.search(cache_control)
    age = float(found[1]) if found else LIFETIME_S
    if "no-cache" in cache_control.lower() or "no-store" in cache_control.lower():
        age = 0.0
    return min(max(age, min_ttl), LIFETIME_S)


def _content(response: Response, now: float, size: int) -> bytes | Failure | None:
    status = response.status
    if status < 300:
        return response.body[:size]
    if status == 429 or status >= 500:
        return error_of(response, now)
    return None


def _for_pages(failure: Failure) -> Failure:
    """Return the failure for the pages that wait for a robots.txt request that failed."""
    failure_class = failure.failure_class
    # If robots.txt is a bomb, the site's pages are not. But what the guard refuses is refused for all of
    # them.
    if failure_class is FailureClass.REFUSED:
        return failure
    if POLICY[failure_class].action is Action.DEAD:
        failure_class = FailureClass.TARGET_ERROR
    return Failure(failure_class, f"robots.txt: {failure.reason}", failure.status, failure.retry_after)
