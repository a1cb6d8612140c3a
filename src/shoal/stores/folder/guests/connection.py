"""The guest's side of the socket: calls to the owner of a folder, any number at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from shoal.stores.contract.store import OwnerLost
from shoal.stores.folder.guests import messages
from shoal.stores.folder.guests.messages import NO_REPLY, Call, CallReply, NumberedCall

Result = TypeVar("Result")

CALL_TIMEOUT_S = 60.0  # an owner that opens a crawl of millions of requests answers nothing for some seconds


@cache
def _decoder(result: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(result)


class OwnerConnection:
    """A connection to the owner, joined. `leave` is called if the owner asks the guest to leave."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, leave: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._leave = leave
        self._number = NO_REPLY
        self._waiting: dict[int, asyncio.Future[CallReply]] = {}
        self._lost: OwnerLost | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, leave: Callable[[], None]
    ) -> AsyncIterator["OwnerConnection"]:
        """Read replies while the block runs, which ends with `OwnerLost` as soon as the owner is gone."""
        connection = cls(reader, writer, leave)
        failed: Exception | None = None
        try:
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(connection._read(), name="owner.replies")
                try:
                    yield connection
                except Exception as error:
                    failed = error  # raised below: not as one of a group
                reading.cancel()
        finally:
            writer.close()
        if failed is not None:
            raise failed

    async def _read(self) -> None:
        while (body := await messages.read_frame(self._reader)) is not None:
            reply = messages.decode_reply(body)
            if reply.number == NO_REPLY:
                self._leave()
            elif (future := self._waiting.get(reply.number)) is not None and not future.done():
                future.set_result(reply)
        self._lost = OwnerLost("the process that owned the store has ended")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._lost)
        raise self._lost

    async def call(
        self, call: Call, result: type[Result], *, timeout: float | None = CALL_TIMEOUT_S
    ) -> Result:
        """Have the owner carry out a call and return its result; raise the error that the owner met."""
        if self._lost is not None:
            raise self._lost
        self._number = number = self._number + 1
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                messages.send(self._writer, NumberedCall(number, call))
                await self._writer.drain()
                reply = await future
        except TimeoutError:
            raise OwnerLost(f"the process that owns the store does not respond for {timeout:.0f} s") from None
        except (OSError, RuntimeError):  # uvloop raises both for a connection that is closed
            raise self._lost or OwnerLost("the process that owned the store has ended") from None
        finally:
            del self._waiting[number]
            if future.done() and not future.cancelled():
                future.exception()  # retrieved: the caller may have been cancelled
        if reply.error:
            raise messages.error_of(reply)
        return cast("Result", _decoder(cast("Hashable", result)).decode(reply.result))

    def tell(self, call: Call) -> None:
        """Send a call that has no reply. An owner that is gone is noticed by the next call."""
        with suppress(ConnectionError):
            messages.send(self._writer, NumberedCall(NO_REPLY, call))
