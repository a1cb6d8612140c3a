"""Tasks that run beside a block and end with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def in_background(
    works: Sequence[Coroutine[Any, Any, None]],
    *,
    leave: Callable[[Sequence[asyncio.Task[None]]], Awaitable[None]] | None = None,
) -> AsyncIterator[None]:
    """Run tasks while the block runs; they are cancelled at its end, after `leave`.

    An error of the block is raised as it is, and not wrapped in a group.
    """
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        try:
            yield
        except BaseException as error:  # raised below: the group would wrap it
            failure = error
        if leave is not None:
            await leave(tasks)
        for task in tasks:
            task.cancel()
    if failure is not None:
        raise failure
