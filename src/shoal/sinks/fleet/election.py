"""Who writes an output: one worker of the fleet at a time, for as long as it says that it is there.

An election saves work; it is not what keeps two writers apart. A worker that was stopped for longer than its
term does not know yet that it is nobody any more. What it may still do is up to the output: a file has a lock
that only one process of its machine can have, a table counts its flushes (`noted.py`, `postgres.py`).

A file belongs to the machine that first wrote it, by the name of the node: no other one has it.
"""

import logging
import os
import time

from shoal.redis_client import RedisClient
from shoal.redis_client.script import load_script
from shoal.sinks.names import is_database, shown

log = logging.getLogger(__name__)

TERM = 15.0  # seconds, after which an output whose writer has died gets another one
_ELSEWHERE = 60.0  # seconds; a file rarely moves to another machine, and a crawl that was dropped stays so
_DROPPED = -2  # election.lua
_SCRIPT = load_script("shoal.sinks.fleet", "election")


class Election:
    """The place of writer of one output, as one worker sees it."""

    def __init__(
        self, store: RedisClient, crawl: int, output: str, *, holder: str, node: str, term: float = TERM
    ) -> None:
        self._store = store
        self._tag = store.tag(crawl % store.shards)
        self._crawl = crawl
        self._output = shown(output)
        self._holder = holder
        self._node = "" if is_database(output) else node
        self._term = term
        self._until = 0.0  # monotonic
        self.owner = ""  # the output's name in the store; another store or crawl has another one
        self.elsewhere = ""  # the machine that the output belongs to, if that is another one
        self.line = f"output {crawl} {self._output}"  # a connection for what is waited for

    async def stand(self, *, lasting: bool = False) -> float:
        """Become the writer, or stay it; return 0, or the seconds until trying again can help.

        `lasting`: return when the store cannot forget the output's name any more.
        """
        begun = time.monotonic()
        wait = await self._ask(self._term, lasting=lasting)
        # Counted from before the question, so that we never think longer than the store does.
        self._until = begun + self._term if not wait else 0.0
        return wait

    async def keep(self) -> bool:
        """Stay the writer, asking the store only when a third of the term is over."""
        if self.left() > self._term * 2 / 3:
            return True
        return not await self.stand()

    def holds(self) -> bool:
        """Say whether nobody else can have been made the writer meanwhile."""
        return self.left() > 0

    def left(self) -> float:
        """Tell for how many seconds nobody else can be made the writer."""
        return max(0.0, self._until - time.monotonic())

    async def step_down(self) -> None:
        """Let another worker go on at once."""
        self._until = 0.0
        await self._ask(0.0)

    async def _ask(self, term: float, *, lasting: bool = False) -> float:
        asked = (self._crawl, self._output, self._holder, int(term * 1000), self._node, os.urandom(8).hex())
        if lasting:
            answers = await self._store.run_durable(_SCRIPT, {self._tag: asked}, connection=self.line)
            wait_ms, answer = answers[self._tag]
        else:
            wait_ms, answer = await self._store.run(_SCRIPT, self._tag, asked)
        if wait_ms == _DROPPED:
            return _ELSEWHERE
        self.elsewhere = answer.decode() if wait_ms < 0 else ""
        if self.elsewhere:
            log.info("output.elsewhere", extra={"output": self._output, "node": self.elsewhere})
            return _ELSEWHERE
        self.owner = answer.decode()
        return float(wait_ms) / 1000
