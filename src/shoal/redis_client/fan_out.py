"""Several calls at once, as to all shards of a store."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def fan_out(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Make several calls at once and return their results in order.

    If one fails, the others are cancelled and the first failure is raised.
    """
    several = list(calls)
    if len(several) == 1:  # the usual case for a crawl of one host: no task is needed
        return [await several[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in several]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]
