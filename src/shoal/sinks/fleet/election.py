"""The election of the writer of an output: one worker of the fleet at a time, for a term that it renews.

The election saves work; it does not keep two writers apart. A worker that was suspended for longer than its
term does not know yet that another one has been elected. The output itself stops it: a file has a lock that
only one process of its machine can hold, a table numbers its flushes (`checkpointed.py`,
`postgres/sink.py`).

An output that only one machine reaches, such as a file, belongs to the machine that first wrote it, by node
name.
"""

import logging
import os
import time
import zlib

from shoal.redis_client import RedisClient
from shoal.redis_client.script import load_script
from shoal.sinks.registry import ResolvedOutput

log = logging.getLogger(__name__)

OUTPUT_CONNECTIONS = 16  # of a worker to each server
TERM_S = 15.0  # the longest, after which another worker is elected for an output whose writer has died
_ELSEWHERE_RETRY_S = 60.0  # a file rarely moves to another machine, and a deleted crawl stays deleted
_DELETED = -2  # election.lua
_SCRIPT = load_script("shoal.sinks.fleet", "election")


class Election:
    """The election for one output, as seen by one worker."""

    def __init__(
        self,
        store: RedisClient,
        crawl: int,
        output: ResolvedOutput,
        *,
        holder: str,
        node: str,
        term_s: float = TERM_S,
    ) -> None:
        self._store = store
        self._tag = store.tag(crawl % store.shards)
        self._crawl = crawl
        self._output = output.name
        self._holder = holder
        self._node = "" if output.capabilities.shared else node
        self._term_s = term_s
        self._until = 0.0  # monotonic
        self.owner = ""  # the id of the output in the store; another store or crawl has another one
        self.elsewhere = ""  # the machine that the output belongs to, if it is another one
        # The connection for calls that block: outputs share a few, however many crawls there are.
        self.connection = f"output {zlib.crc32(f'{crawl} {self._output}'.encode()) % OUTPUT_CONNECTIONS}"

    async def acquire(self, *, durable: bool = False) -> float:
        """Become the writer, or stay it; return 0, or the seconds after which to try again.

        `durable`: return only when the store cannot lose the id of the output any more.
        """
        started = time.monotonic()
        wait = await self._ask(self._term_s, durable=durable)
        # Counted from before the call, so that the term here never ends later than in the store.
        self._until = started + self._term_s if not wait else 0.0
        return wait

    async def renew(self) -> bool:
        """Stay the writer; calls the store only when a third of the term is over."""
        if self.remaining_s() > self._term_s * 2 / 3:
            return True
        return not await self.acquire()

    def holds(self) -> bool:
        """Return whether no other worker can have been elected."""
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        """Return the seconds for which no other worker can be elected."""
        return max(0.0, self._until - time.monotonic())

    async def release(self) -> None:
        """End the term, so that another worker can be elected at once."""
        self._until = 0.0
        await self._ask(0.0)

    async def _ask(self, term_s: float, *, durable: bool = False) -> float:
        arguments = (
            self._crawl,
            self._output,
            self._holder,
            int(term_s * 1000),
            self._node,
            os.urandom(8).hex(),
        )
        if durable:
            answers = await self._store.run_durable(
                _SCRIPT, {self._tag: arguments}, connection=self.connection
            )
            wait_ms, answer = answers[self._tag]
        else:
            wait_ms, answer = await self._store.run(_SCRIPT, self._tag, arguments)
        if wait_ms == _DELETED:
            return _ELSEWHERE_RETRY_S
        self.elsewhere = answer.decode() if wait_ms < 0 else ""
        if self.elsewhere:
            log.info("output.elsewhere", extra={"output": self._output, "node": self.elsewhere})
            return _ELSEWHERE_RETRY_S
        self.owner = answer.decode()
        return float(wait_ms) / 1000
