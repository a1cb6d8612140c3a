"""One lease has one believer at a time: an oracle for work that is done twice.

It watches the calls of all frontiers. A worker believes in a lease until it hands it in, or until the deadline that
the store has told it. If another worker gets the same URL before that, one of them works in vain. The fence
protects the results, so no other oracle sees it.

The lease of a worker that is dead, or was frozen or cut off for long, may be taken before its deadline: the
others know that it has ended, or that its requests must be over.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tests.simulation.clock import CURRENT, EPOCH, world
from tests.simulation.loop import Node
from tests.simulation.oracles import Broken
from tests.simulation.valkey import Server

from shoal.frontier.redis.frontier import RedisFrontier
from shoal.model.outcome import Lease

TOLERANCE_S = 0.01
MISSING_S = 4.0  # a node that made no call for so long may count as missing


class Believers:
    """Watches every `RedisFrontier` of this process, which runs one seed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._beliefs: dict[tuple[str, int], tuple[Node, int, float]] = {}  # node, token, deadline
        self._heard: dict[Node, float] = {}  # when a node has last made a call
        self._broken = ""
        RedisFrontier.lease = self._watch_lease(RedisFrontier.lease)  # type: ignore[method-assign]
        RedisFrontier.extend = self._watch_extend(RedisFrontier.extend)  # type: ignore[method-assign]
        RedisFrontier.commit = self._watch_commit(RedisFrontier.commit)  # type: ignore[method-assign]

    def check(self) -> None:
        """Raise if two nodes believed in one lease."""
        if self._broken:
            raise Broken(self._broken)

    def _store_now(self) -> float:
        return EPOCH + world.now + self._server.clock_step

    def _watch_lease(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        async def lease(*args: Any, **options: Any) -> Any:
            began = self._store_now()
            grant = await call(*args, **options)
            for one in grant.leases:
                self._believe(one, began)
            return grant

        return lease

    def _watch_extend(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        async def extend(frontier: RedisFrontier, leases: Sequence[Lease], ttl: float) -> Any:
            extended = await call(frontier, leases, ttl)
            node = self._hear()
            for one in extended:
                if self._beliefs.get(_key(one), (None, 0, 0.0))[:2] == (node, one.token):
                    self._beliefs[_key(one)] = (node, one.token, one.leased_until)
            return extended

        return extend

    def _watch_commit(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        async def commit(
            frontier: RedisFrontier, settlements: Sequence[Any] = (), *args: Any, **options: Any
        ) -> Any:
            for one in settlements:  # before the call: its effect may come before its answer
                if self._beliefs.get(_key(one.lease), (None, 0, 0.0))[1] == one.lease.token:
                    del self._beliefs[_key(one.lease)]
            self._hear()
            return await call(frontier, settlements, *args, **options)

        return commit

    def _hear(self) -> Node:
        node = CURRENT.get()
        assert node is not None
        self._heard[node] = world.now
        return node

    def _believe(self, lease: Lease, began: float) -> None:
        node = self._hear()
        holder, token, deadline = self._beliefs.get(_key(lease), (node, lease.token, 0.0))
        missing = world.now - self._heard.get(holder, 0.0) > MISSING_S
        if (
            token != lease.token
            and deadline > self._store_now() + TOLERANCE_S
            and not (holder.dead or missing)
        ):
            self._broken = self._broken or (
                f"believers: {node} got {lease.request.url} {deadline - self._store_now():.3f} s before the lease"
                f" of {holder} ended"
            )
            world.log(self._broken)
        self._beliefs[_key(lease)] = (node, lease.token, lease.leased_until)


def _key(lease: Lease) -> tuple[str, int]:
    return lease.crawl, lease.fingerprint
