"""Connect to the first of several addresses that accepts: RFC 8305, "happy eyeballs".

A host with several addresses may have some that swallow packets, most often those of an IPv6 network that
does not work here. Attempts start 250 ms apart, alternating between IPv6 and IPv4, and the first connection
wins.
Addresses that failed or lost are remembered for a while and tried last.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain, zip_longest
from time import monotonic
from typing import Any, Protocol, TypeVar

ATTEMPT_DELAY_S = 0.25
MAX_ATTEMPTS = 3  # addresses tried for one connection
DEAD_FOR_S = 60.0
MAX_DEAD = 10_000

Address = tuple[str, int]  # with the port


class Closable(Protocol):
    def abort(self) -> None: ...


C = TypeVar("C", bound=Closable)


class DeadAddresses:
    """The addresses that did not accept a connection lately."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[Address, float] = OrderedDict()

    def __contains__(self, address: Address) -> bool:
        return self._until.get(address, 0.0) > self._clock()

    def add(self, address: Address) -> None:
        self._until[address] = self._clock() + DEAD_FOR_S
        self._until.move_to_end(address)
        if len(self._until) > MAX_DEAD:
            self._until.popitem(last=False)

    def remove(self, address: Address) -> None:
        self._until.pop(address, None)


def order_addresses(addresses: Sequence[str], port: int, dead: DeadAddresses) -> list[str]:
    """Return the addresses to try, the families in turn, starting with that of the first one."""
    is_first_family = [(":" in address) == (":" in addresses[0]) for address in addresses]
    first = [address for address, same in zip(addresses, is_first_family, strict=True) if same]
    other = [address for address, same in zip(addresses, is_first_family, strict=True) if not same]
    turns = [one for one in chain.from_iterable(zip_longest(first, other)) if one is not None]
    turns.sort(key=lambda address: (address, port) in dead)  # stable
    return turns[:MAX_ATTEMPTS]


async def race(
    addresses: Sequence[str], connect: Callable[[str], Coroutine[Any, Any, C]], *, timeout: float
) -> tuple[C | BaseException, list[str]]:
    """Return the first connection, and the addresses that failed or were overtaken.

    If no address accepts, return the error of the last one; `TimeoutError` if `timeout` ended the race.
    """
    running: dict[asyncio.Task[C], str] = {}
    error: BaseException = TimeoutError()
    lost: list[str] = []
    waiting = list(addresses)
    deadline = monotonic() + timeout
    try:
        while (left := deadline - monotonic()) > 0 and (waiting or running):
            if waiting:
                address = waiting.pop(0)
                running[asyncio.create_task(connect(address))] = address
            delay = min(ATTEMPT_DELAY_S, left) if waiting else left
            done, _ = await asyncio.wait(running, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = running.pop(task)
                if task.exception() is None:
                    return task.result(), [*lost, *running.values()]
                lost.append(address)
                error = task.exception() or error
        return (TimeoutError() if running else error), [*lost, *running.values()]
    finally:
        for task in running:
            task.add_done_callback(_abort)
            task.cancel()


def _abort(task: asyncio.Task[C]) -> None:
    """Close a connection that was made too late."""
    if not task.cancelled() and task.exception() is None:
        task.result().abort()
