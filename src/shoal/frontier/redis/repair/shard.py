"""A shard that is being put right, and who may change it meanwhile: everybody, or nobody but us."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from shoal.frontier.redis.repair.findings import Findings
from shoal.frontier.redis.scan import ShardScan
from shoal.frontier.redis.scripts import Scripts
from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client import RedisClient, Script, ScriptArgument
from shoal.redis_client.connection import Argument

FROZEN_FOR = 10.0  # seconds, as in frozen.lua
RENEW_AFTER = 2.0


class Shard:
    def __init__(
        self, store: RedisClient, scripts: Scripts, tag: str, freezer: str, findings: Findings
    ) -> None:
        self.scripts = scripts
        self.tag = tag
        self.slices = ShardScan(store, tag)
        self.findings = findings
        self.relayed = bool(store.dsn.bus)  # another queue takes the announcements of pages out of the shard
        self._store = store
        self._freezer = freezer
        self._renewed_at = 0.0

    async def do(self, *command: Argument) -> Any:
        return await self._store.do(self.tag, *command)

    async def pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        return await self._store.pipeline(self.tag, commands)

    async def run(self, script: Script, *arguments: ScriptArgument) -> Any:
        """Run a script that looks and changes in one step, while others are at work."""
        return await self._store.run(script, self.tag, arguments)

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Keep everybody else out."""
        await self._freeze(FROZEN_FOR)
        try:
            yield
        finally:
            await self._freeze(0)

    async def _freeze(self, seconds: float) -> None:
        if not await self.run(self.scripts.freeze, self._freezer, seconds):
            raise Misconfigured("somebody else is repairing the store; run it again when they are done")
        self._renewed_at = time.monotonic()

    async def hold(self) -> None:
        """Stay in possession, between two slices."""
        if time.monotonic() - self._renewed_at > RENEW_AFTER:
            await self._freeze(FROZEN_FOR)

    async def run_frozen(self, script: Script, *arguments: ScriptArgument) -> Any:
        """Run a script that only who has frozen the shard may run."""
        answer = await self.run(script, self._freezer, *arguments)
        if answer is None:
            raise Unavailable("store: took so long to answer that others went on; repair it again")
        self._renewed_at = time.monotonic()
        return answer
