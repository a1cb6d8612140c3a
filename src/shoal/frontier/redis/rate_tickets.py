"""Rate-limit turns of hosts, taken when requests are ready to be sent, many of them in one call.

Every request of a fleet needs a turn, and a separate call for it would cost the server more than its lease
and its settlement together. While a call to a shard is running, further requests for that shard queue up, and
the next call is for all of them: the busier the server, the larger the batch. If the server is far away, the
next call does not wait for the answer of the one before.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from shoal.model.pace import DelayEstimate, TurnAnswer, TurnKind, TurnRequest
from shoal.redis_client import EPOCH, RedisClient, Script, ScriptArgument

CALL_EVERY_S = 0.01  # a call waits for an earlier one to be answered, but not longer than this


@dataclass(slots=True, eq=False)
class _Queued:
    request: TurnRequest
    crawl: int  # 0: none
    in_call: bool = False
    answer: TurnAnswer | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)  # its call has ended


class _Calls:
    """The calls to one shard."""

    __slots__ = ("began_at", "ended", "queued", "running")

    def __init__(self) -> None:
        self.queued: list[_Queued] = []
        self.running = 0
        self.began_at = 0.0  # the latest one
        self.ended = asyncio.Event()  # set when the next of the running calls ends, and replaced then


class RateTickets:
    """`taker` is the name under which this process takes turns."""

    def __init__(
        self, store: RedisClient, script: Script, taker: str, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._store = store
        self._script = script
        self._taker = taker
        self._clock = clock
        self._calls: defaultdict[str, _Calls] = defaultdict(_Calls)
        self.delay = DelayEstimate()

    async def take(self, request: TurnRequest, crawl: int) -> TurnAnswer:
        """Take a turn, or return when to ask again; `crawl` is the number of the request's crawl."""
        tag = self._store.tag_of(request.host)
        calls, queued = self._calls[tag], _Queued(request, crawl)
        calls.queued.append(queued)
        try:
            while queued.answer is None:
                if queued.in_call:
                    await queued.news.wait()
                    queued.news.clear()
                elif (pause := self._pause(calls)) > 0:
                    await _wait(calls.ended, pause)
                else:
                    await self._call(tag, calls)
        finally:
            if queued in calls.queued:  # cancelled: no turn is taken for it
                calls.queued.remove(queued)
        return queued.answer

    def _pause(self, calls: _Calls) -> float:
        """Return the seconds after which the next call may begin although one is running."""
        return calls.began_at + CALL_EVERY_S - self._clock() if calls.running else 0.0

    async def _call(self, tag: str, calls: _Calls) -> None:
        batch, calls.queued = calls.queued, []
        arguments: list[ScriptArgument] = [EPOCH, self._taker]
        for one in batch:
            one.in_call = True
            it = one.request
            arguments += [it.host, one.crawl, it.interval, it.margin, it.leeway, it.ahead, it.receipt]
        calls.running += 1
        calls.began_at = asked_at = self._clock()
        try:
            reply = await self._store.run(self._script, tag, arguments)
            self.delay.note(self._clock() - asked_at)
            for number, one in enumerate(batch):
                kind, wait, receipt = reply[3 * number : 3 * number + 3]
                one.answer = TurnAnswer(TurnKind(kind.decode()), float(wait), asked_at, receipt.decode())
        finally:
            calls.running -= 1
            ended, calls.ended = calls.ended, asyncio.Event()
            ended.set()
            for one in batch:  # without an answer: the call was cancelled or has failed, so each asks again
                one.in_call = False
                one.news.set()
                if one.answer is None:
                    calls.queued.append(one)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
