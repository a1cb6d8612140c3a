"""Several shards asked at once."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Make several calls at once; if some fail, end the others and raise what the first of them said."""
    several = list(calls)
    if len(several) == 1:  # as always where a crawl is of one host: no task is needed
        return [await several[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in several]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]
