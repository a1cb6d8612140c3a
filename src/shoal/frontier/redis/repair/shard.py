"""The shard under repair: calls, the freeze that keeps other callers out, and the report of faults."""

import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from shoal.frontier.redis.scan import ShardScan
from shoal.frontier.redis.scripts import Scripts
from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client import RedisClient, Script, ScriptArgument, ScriptFault
from shoal.redis_client.connection import Argument

FREEZE_S = 10.0  # as in require_frozen.lua
RENEW_AFTER_S = 2.0


class FaultReport:
    """How often each kind of fault was found, with one example each."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._counters: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by crawl: changes

    def add(self, kind: str, example: str = "", number: int = 1) -> None:
        """Add faults of one kind; `number` may be 0."""
        if not number:
            return
        self._kinds[kind] += number
        if example:
            self._examples.setdefault(kind, example)

    def add_counter(self, crawl: str, counter: str, *, by: int) -> None:
        """Add that a counter was changed by `by` in one shard."""
        self._counters[crawl][counter] += by

    def lines(self) -> list[str]:
        """Return one line per kind of fault, then one per counter that was wrong over all shards."""
        lines = []
        for kind, number in self._kinds.items():
            example = f": {self._examples[kind]}" if kind in self._examples else ""
            more = f", and {number - 1} more" if number > 1 and example else ""
            times = f" ({number})" if number > 1 and not example else ""
            lines.append(f"{kind}{example}{more}{times}")
        for crawl, counters in self._counters.items():
            for name, by in counters.items():
                if by:
                    lines.append(f"{crawl}: the counter of {name} was off by {-by:+d}")
        return lines


class Shard:
    def __init__(
        self, store: RedisClient, scripts: Scripts, tag: str, freezer: str, report: FaultReport
    ) -> None:
        self.scripts = scripts
        self.tag = tag
        self.scan = ShardScan(store, tag)
        self.report = report
        self.relayed = bool(store.dsn.bus)  # another bus takes the announcements of pages out of the shard
        self.faulty = False  # a part of it could not be repaired: what follows from that part is not known
        self._store = store
        self._freezer = freezer
        self._renewed_at = 0.0

    async def do(self, *command: Argument) -> Any:
        return await self._store.do(self.tag, *command)

    async def pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        return await self._store.pipeline(self.tag, commands)

    async def run(self, script: Script, *arguments: ScriptArgument) -> Any:
        """Run a script that checks and changes in one step, while other callers work."""
        return await self._store.run(script, self.tag, arguments)

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Reject all other callers for the duration of the block."""
        await self._freeze(FREEZE_S)
        try:
            yield
        finally:
            await self._freeze(0)

    async def _freeze(self, seconds: float) -> None:
        if not await self.run(self.scripts.freeze, self._freezer, seconds):
            raise Misconfigured("another process is repairing the store; run this again when it has finished")
        self._renewed_at = time.monotonic()

    @contextmanager
    def reporting_faults(self) -> Iterator[None]:
        """Report a script that fails, most likely at an entry that it cannot read, and continue."""
        try:
            yield
        except ScriptFault:
            self.faulty = True
            self.report.add("a part that cannot be repaired: an entry of it cannot be read", self.tag)

    async def renew_freeze(self) -> None:
        """Extend the freeze, between two batches."""
        if time.monotonic() - self._renewed_at > RENEW_AFTER_S:
            await self._freeze(FREEZE_S)

    async def run_frozen(self, script: Script, *arguments: ScriptArgument) -> Any:
        """Run a script that only the process that froze the shard may run."""
        answer = await self.run(script, self._freezer, *arguments)
        if answer is None:
            raise Unavailable("store: answered so late that the freeze has expired; run the repair again")
        self._renewed_at = time.monotonic()
        return answer
