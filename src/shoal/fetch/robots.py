"""Fetch and cache robots.txt: once per site and day, however many requests wait for it.

How the response to a robots.txt request is read, by RFC 9309:

    2xx                                its rules, from the first 500 KiB
    4xx, redirects that lead nowhere   the site has no robots.txt: everything is allowed
    429, 5xx, no answer, a bomb        unreachable: nothing is allowed for now

An unavailable robots.txt says nothing about pages, so they are not filtered. They fail with the class of the
robots.txt request and are retried as after any other failure; robots.txt is fetched again at growing
intervals. For the first `PATIENT_TRIES` tries in a row the whole host is paused in between, so that the
requests queued behind the first few keep their attempts: an outage of minutes costs only time. After that the
host's requests become dead letters as they come, and can be replayed: a crawl of a dead host must finish.

Rules belong to an origin (scheme, host, port). Redirects are followed at once, under the guard and the gate.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import time

import msgspec

from shoal.fetch.contract import Client
from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn
from shoal.fetch.interpret import REDIRECT_STATUSES, RedirectRules, error_of, resolve
from shoal.fetch.robots_txt import ALLOW_ALL, MAX_BYTES, RobotsRules, parse, product_token
from shoal.model.failure import POLICY, Action, Failure, FailureClass
from shoal.model.limits import MIB, FetchLimits
from shoal.model.page import NotSent, Response
from shoal.model.url import host_key

LIFETIME_S = 86_400.0
MAX_HOPS = 5
PATIENT_TRIES = 7  # tries in a row: four minutes
FIRST_WAIT_S, MAX_WAIT_S = 2.0, 300.0
MAX_CACHE_BYTES = 32 * MIB
MAX_DOWN_ORIGINS = 10_000  # unreachable origins remembered


class RobotsRecord(msgspec.Struct, frozen=True):
    """A robots.txt as it is stored."""

    fetched_at: float  # epoch seconds
    body: bytes | None  # None: the site has none


Load = Callable[[str], Awaitable[bytes | None]]
Save = Callable[[str, bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RobotsUnavailable:
    """robots.txt could not be fetched, so nothing may be fetched for now."""

    failure: Failure
    retry_in: float  # seconds until it is fetched again
    patient: bool  # pause the whole host until then


@dataclass(frozen=True, slots=True)
class _Down:
    failure: Failure
    tries: int
    retry_at: float


class RobotsPolicy:
    """The robots.txt rules of every origin, for the product token in `token` (a token or a user agent).

    `load` and `save` persist packed `RobotsRecord`s by origin.
    """

    def __init__(
        self,
        client: Client,
        redirects: RedirectRules,
        *,
        token: str,
        headers: Headers = (),
        limits: FetchLimits | None = None,
        load: Load | None = None,
        save: Save | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._client = client
        self._redirects = redirects
        self._token = product_token(token)
        self._headers = headers
        self._limits = limits or FetchLimits()
        self._load = load
        self._save = save
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, RobotsRules]] = OrderedDict()  # origin -> until when, rules
        self._weight = 0
        self._down: OrderedDict[str, _Down] = OrderedDict()
        self._fetching: dict[str, asyncio.Event] = {}  # origin -> set when its robots.txt has been fetched

    def known(self, origin: str) -> RobotsRules | None:
        """Return the cached rules; None if they are not cached, or too old."""
        kept = self._kept.get(origin)
        return kept[1] if kept is not None and kept[0] > self._clock() else None

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
                record = RobotsRecord(self._clock(), answer)
                if self._save is not None:
                    await self._save(origin, msgspec.msgpack.encode(record))
            self._down.pop(origin, None)
            return self._keep(origin, record)
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
        age = self._clock() - record.fetched_at
        return record if 0 <= age < LIFETIME_S else None

    async def _fetch(self, origin: str, turn: Callable[[str], SendTurn]) -> bytes | Failure | NotSent | None:
        """Return the content of robots.txt, None if the site has none, or why it is unavailable."""
        url = f"{origin}/robots.txt"
        for hop in range(MAX_HOPS + 1):
            answer = await self._client.fetch(
                url, headers=self._headers, limits=self._limits, turn=turn(host_key(url))
            )
            if isinstance(answer, Failure) and hop > 0 and answer.failure_class is FailureClass.REFUSED:
                return None
            if not isinstance(answer, Response):
                return answer
            if answer.status not in REDIRECT_STATUSES:
                return _content(answer, self._clock())
            target = resolve(url, answer.header("location"), self._redirects)
            if isinstance(target, Failure):
                return None
            url = target
            del answer  # while the client waits for memory, it must not be held here
        return None

    def _keep(self, origin: str, record: RobotsRecord) -> RobotsRules:
        rules = ALLOW_ALL if record.body is None else parse(record.body, self._token)
        self._drop(origin)
        self._kept[origin] = (record.fetched_at + LIFETIME_S, rules)
        self._weight += rules.weight
        while self._weight > MAX_CACHE_BYTES and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))
        return rules

    def _drop(self, origin: str) -> None:
        if origin in self._kept:
            self._weight -= self._kept.pop(origin)[1].weight

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


def _content(response: Response, now: float) -> bytes | Failure | None:
    status = response.status
    if status < 300:
        return response.body[:MAX_BYTES]
    if status == 429 or status >= 500:
        return error_of(response, now)
    return None


def _for_pages(failure: Failure) -> Failure:
    """Return the failure for the pages that wait for a robots.txt request that failed."""
    failure_class = failure.failure_class
    # If robots.txt is a bomb, the site's pages are not. But what the guard refuses is refused for all of
    # them.
    if POLICY[failure_class].action is Action.DEAD and failure_class is not FailureClass.REFUSED:
        failure_class = FailureClass.TARGET_ERROR
    return Failure(failure_class, f"robots.txt: {failure.reason}", failure.status, failure.retry_after)
