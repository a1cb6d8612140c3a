"""The network between nodes and the store.

A call has a time at which the store runs it and a time at which its reply arrives, in order within a connection. The seed
decides its fate: the request is lost, the answer is lost after the effect, or the effect comes seconds later, after
the caller has given up and repeated the call on a new connection. The effect runs outside of all nodes: what a
killed node has sent still arrives.

Blocking commands run without BLOCK, again whenever the store has changed.
"""

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any

from tests.simulation.clock import CURRENT, world
from tests.simulation.loop import Node
from tests.simulation.plan import Plan
from tests.simulation.valkey import Server

from shoal.redis_client.connection import Argument, RedisConnection
from shoal.redis_client.dsn import Address
from shoal.redis_client.errors import LOST, TIMEOUT, CallFailed

LATEST_S = 12.0  # that an effect comes late
POLL_S = 0.1  # of a blocking command
Command = Sequence[Argument]


class Network:
    """Connects nodes with one server; `note` is called with every effect and the node that caused it."""

    def __init__(self, server: Server, names: Mapping[str, str], note: Callable[[str, Node], None]) -> None:
        self.server = server
        self.down_until = 0.0
        self._note = note
        self._fates: tuple[tuple[str, float], ...] = ()
        self._names = names  # of scripts, by hash

    def begin_losses(self, plan: Plan) -> None:
        self._fates = (
            ("lose_request", plan.lose_request),
            ("lose_answer", plan.lose_answer),
            ("late", plan.late),
        )

    def end_losses(self) -> None:
        self._fates, self.down_until = (), 0.0

    def delay(self) -> float:
        """Return the seconds that a message takes."""
        chance = world.network.random()
        return 0.2 * world.network.random() if chance > 0.98 else 0.0001 + 0.001 * chance

    def fate(self) -> str:
        """Return what becomes of a call; empty: it succeeds."""
        chance = world.network.random()
        if world.now < self.down_until:
            return "lose_request"
        for name, share in self._fates:
            if chance < share:
                return name
            chance -= share
        return ""

    def run(self, commands: Sequence[Command], node: Node | None) -> list[Any]:
        """Run commands on the server, write them to the trace, and report the event."""
        replies = self.server.ask(commands)
        name = self.name_of(commands[0])
        world.log("call", node, name, _hash(commands), _hash(replies))
        if node is not None:
            self._note(name, node)
        return replies

    def name_of(self, command: Command) -> str:
        """Return the name of a script, or of a command."""
        if command[0] == "EVALSHA":
            return self._names.get(str(command[1]), "script")
        return str(command[0])

    async def connect(
        self, address: Address, login: Any, *, timeout: float, **_options: Any
    ) -> RedisConnection:
        """Open a connection of the node that calls."""
        await asyncio.sleep(self.delay())
        if world.now < self.down_until:
            raise CallFailed(LOST, str(address), detail="refused")
        return SimConnection(self, address, timeout)


def _hash(value: object) -> int:
    return zlib.crc32(repr(value).encode())


class SimConnection(RedisConnection):
    """A connection of one node. Retries, scripts and everything above are the product's."""

    def __init__(self, network: Network, address: Address, timeout: float) -> None:
        super().__init__(address, timeout)
        self.alive = True
        self._network = network
        self._node = CURRENT.get()
        self._loop = asyncio.get_running_loop()
        self._arrives_at = 0.0  # the last request
        self._replies_at = 0.0  # the last reply

    async def call_many(self, commands: Sequence[Command], *, extra: float = 0.0) -> list[Any]:
        if not self.alive:
            raise self._close_reason.copy()
        done: asyncio.Future[Any] = self._loop.create_future()
        self._replies.append(done)
        fate = self._network.fate()
        late = LATEST_S * world.network.random() if fate == "late" else 0.0
        self._arrives_at = max(self._arrives_at, world.now + self._network.delay()) + late
        self._outside(self._arrives_at, self._arrive, [tuple(one) for one in commands], done, fate)
        try:
            async with asyncio.timeout(self._timeout + extra):
                replies: list[Any] = await done
                return replies
        except TimeoutError as error:
            reason = CallFailed(TIMEOUT, str(self.address))
            self._abort(reason)
            raise reason from error

    def _outside(self, at: float, call: Callable[..., None], *args: object) -> None:
        """Call something later that belongs to no node, so that it happens although the node is dead."""
        self._loop.call_at(at, call, *args, context=Context())

    def _arrive(self, commands: list[Command], done: "asyncio.Future[Any]", fate: str) -> None:
        if fate == "lose_request":
            world.log("lost", self._node, self._network.name_of(commands[0]))
            self._break()
            return
        if "BLOCK" in commands[0]:
            at = commands[0].index("BLOCK")
            until = world.now + float(commands[0][at + 1]) / 1000
            command = [*commands[0][:at], *commands[0][at + 2 :]]
            self._poll(command, done, fate, until, -1)
            return
        self._answer(self._network.run(commands, self._node), done, fate)

    def _poll(
        self, command: Command, done: "asyncio.Future[Any]", fate: str, until: float, seen: int
    ) -> None:
        if not self.alive or done.done() or (self._node is not None and self._node.dead):
            return
        server = self._network.server
        if server.changes != seen:
            [reply] = server.ask([command])
            if reply is not None or world.now >= until:
                world.log("call", self._node, command[0], _hash(command), _hash(reply))
                self._answer([reply], done, fate)
                return
        elif world.now >= until:
            self._answer([None], done, fate)
            return
        self._outside(min(until, world.now + POLL_S), self._poll, command, done, fate, until, server.changes)

    def _answer(self, replies: list[Any], done: "asyncio.Future[Any]", fate: str) -> None:
        if fate == "lose_answer":
            self._break()
            return
        self._replies_at = max(self._replies_at, world.now + self._network.delay())
        self._outside(self._replies_at, self._hand_over, replies, done)

    def _hand_over(self, replies: list[Any], done: "asyncio.Future[Any]") -> None:
        if done in self._replies:
            self._replies.remove(done)
        if not done.done():
            done.set_result(replies)

    def _break(self) -> None:
        self._outside(world.now + self._network.delay(), self._abort, CallFailed(LOST, str(self.address)))
