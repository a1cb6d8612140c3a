"""The rules of each site, fetched once and kept for a day, however many requests wait for them.

What the answer to a robots.txt request says, by RFC 9309:

    2xx                                its rules, from the first 500 KiB
    4xx, redirects that lead nowhere   there is none: all is allowed
    429, 5xx, no answer, a bomb        unreachable: nothing is allowed for now

Unreachable is no verdict about pages, so they are not filtered for it. They fail with the class of the
robots.txt request and are retried like after any other failure; then it is asked for again, at growing
distances. For the first `PATIENT` tries in a row the whole host rests in between, so that the many requests
behind the first few keep their attempts: an outage of minutes costs time and nothing else. After that the
host's requests are given up as fast as they come, and can be replayed: a crawl of a dead host must end.

Rules belong to an origin (scheme, host, port). Redirects are followed in place, under the guard and the gate.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import time
from typing import Protocol

import msgspec

from shoal.fetch.gate import HeldSlots
from shoal.fetch.http.client import SendTurn
from shoal.fetch.http.message import Headers
from shoal.fetch.interpret import REDIRECTS, RedirectRules, error_of, resolve
from shoal.fetch.robots_txt import ALLOW_ALL, BYTES, Rules, parse, product_token
from shoal.model.failure import POLICY, Action, Failure, FailureClass
from shoal.model.limits import MIB, FetchLimits
from shoal.model.page import Response
from shoal.model.url import host_key

LIFETIME = 86_400.0
HOPS = 5
PATIENT = 7  # tries in a row: four minutes
FIRST_WAIT, LONGEST_WAIT = 2.0, 300.0
CACHE_BYTES = 32 * MIB
DOWN = 10_000  # unreachable origins remembered


class RobotsClient(Protocol):
    async def fetch(
        self, url: str, *, headers: Headers, limits: FetchLimits, turn: SendTurn
    ) -> Response | Failure | HeldSlots: ...


class RobotsRecord(msgspec.Struct, frozen=True):
    """A robots.txt at rest."""

    fetched_at: float  # epoch seconds
    body: bytes | None  # None: the site has none


Load = Callable[[str], Awaitable[bytes | None]]
Save = Callable[[str, bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The rules cannot be had for now."""

    failure: Failure
    retry_in: float  # seconds until they are asked for again
    patient: bool  # the host should rest until then


@dataclass(frozen=True, slots=True)
class _Down:
    failure: Failure
    tries: int
    retry_at: float


class RobotsPolicy:
    """Knows the rules of every origin for one product token: `token`, or the one in that user agent.

    `load` and `save` keep `RobotsRecord`s (packed) beyond this process, by origin.
    """

    def __init__(
        self,
        client: RobotsClient,
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
        self._kept: OrderedDict[str, tuple[float, Rules]] = OrderedDict()  # origin -> until when, rules
        self._weight = 0
        self._down: OrderedDict[str, _Down] = OrderedDict()
        self._asking: dict[str, asyncio.Event] = {}

    def known(self, origin: str) -> Rules | None:
        """Give the rules without asking anybody; None: they are not known, or too old."""
        kept = self._kept.get(origin)
        return kept[1] if kept is not None and kept[0] > self._clock() else None

    async def rules(self, origin: str, turn: Callable[[str], SendTurn]) -> Rules | Unreachable | HeldSlots:
        """Give the rules, fetching them if need be. `turn` prepares a turn at the gate, by host."""
        while True:
            if (rules := self.known(origin)) is not None:
                return rules
            down = self._down.get(origin)
            if down is not None and down.retry_at > self._clock():
                return Unreachable(down.failure, down.retry_at - self._clock(), down.tries <= PATIENT)
            asking = self._asking.get(origin)
            if asking is None:
                return await self._ask(origin, turn)
            await asking.wait()  # then look again: whoever asked may have been cancelled

    async def _ask(self, origin: str, turn: Callable[[str], SendTurn]) -> Rules | Unreachable | HeldSlots:
        self._asking[origin] = asyncio.Event()
        try:
            record = await self._loaded(origin)
            if record is None:
                answer = await self._fetch(origin, turn)
                if isinstance(answer, HeldSlots):
                    return answer
                if isinstance(answer, Failure):
                    return self._note_down(origin, answer)
                record = RobotsRecord(self._clock(), answer)
                if self._save is not None:
                    await self._save(origin, msgspec.msgpack.encode(record))
            self._down.pop(origin, None)
            return self._keep(origin, record)
        finally:
            self._asking.pop(origin).set()

    async def _loaded(self, origin: str) -> RobotsRecord | None:
        packed = await self._load(origin) if self._load is not None else None
        if packed is None:
            return None
        try:
            record = msgspec.msgpack.decode(packed, type=RobotsRecord)
        except msgspec.MsgspecError:
            return None  # written by another version: ask the site again
        age = self._clock() - record.fetched_at
        return record if 0 <= age < LIFETIME else None

    async def _fetch(
        self, origin: str, turn: Callable[[str], SendTurn]
    ) -> bytes | Failure | HeldSlots | None:
        """Fetch the file: its bytes, None if there is none, or why it is unreachable."""
        url = f"{origin}/robots.txt"
        for hop in range(HOPS + 1):
            answer = await self._client.fetch(
                url, headers=self._headers, limits=self._limits, turn=turn(host_key(url))
            )
            if isinstance(answer, Failure) and hop > 0 and answer.failure_class is FailureClass.REFUSED:
                return None
            if not isinstance(answer, Response):
                return answer
            if answer.status not in REDIRECTS:
                return _content(answer, self._clock())
            target = resolve(url, answer.header("location"), self._redirects)
            if isinstance(target, Failure):
                return None
            url = target
        return None

    def _keep(self, origin: str, record: RobotsRecord) -> Rules:
        rules = ALLOW_ALL if record.body is None else parse(record.body, self._token)
        self._drop(origin)
        self._kept[origin] = (record.fetched_at + LIFETIME, rules)
        self._weight += rules.weight
        while self._weight > CACHE_BYTES and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))
        return rules

    def _drop(self, origin: str) -> None:
        if origin in self._kept:
            self._weight -= self._kept.pop(origin)[1].weight

    def _note_down(self, origin: str, failure: Failure) -> Unreachable:
        before = self._down.pop(origin, None)
        tries = before.tries + 1 if before is not None else 1
        wait = min(FIRST_WAIT * 2 ** min(tries - 1, 20), LONGEST_WAIT)
        wait = max(wait, failure.retry_after or 0.0)
        failure = _for_pages(failure)
        self._down[origin] = _Down(failure, tries, self._clock() + wait)
        if len(self._down) > DOWN:
            self._down.popitem(last=False)
        return Unreachable(failure, wait, tries <= PATIENT)


def _content(response: Response, now: float) -> bytes | Failure | None:
    status = response.status
    if status < 300:
        return response.body[:BYTES]
    if status == 429 or status >= 500:
        return error_of(response, now)
    return None


def _for_pages(failure: Failure) -> Failure:
    """Name the failure of the robots.txt request in a way that fits the pages that wait for it."""
    kind = failure.failure_class
    # A file that is a bomb makes no page of the site one. Only what the guard refuses is refused for all.
    if POLICY[kind].action is Action.DEAD and kind is not FailureClass.REFUSED:
        kind = FailureClass.TARGET_ERROR
    return Failure(kind, f"robots.txt: {failure.reason}", failure.status, failure.retry_after)
