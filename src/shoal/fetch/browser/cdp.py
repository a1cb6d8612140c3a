"""The Chrome DevTools Protocol over two pipes: commands to a browser, its answers and events.

Messages are JSON, each followed by a NUL byte. A pipe and not a port: no other process can connect, and the
browser ends when the pipe closes, so it never outlives the worker, however that ends.

A renderer that crashes leaves its pending commands without an answer. `CdpSession.fail` ends them; the
connection calls it for `Inspector.targetCrashed` and `Target.detachedFromTarget`, and for every session when
the pipe closes.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from shoal.model.failure import Failure

MAX_MESSAGE_BYTES = 256 << 20  # a DOM of 32 MiB in JSON, escaped, and a screenshot in Base64
COMMAND_S = 30.0  # longest wait for the answer to one command

Params = Mapping[str, Any]
Handler = Callable[[Params], None]


class CommandFailed(Exception):
    """The browser refused a command."""


class BrowserGone(Exception):
    """The browser process has ended, or its pipe is closed."""


class TargetGone(Exception):
    """The page has crashed or was closed; the browser runs on."""


class PageEnded(TargetGone):
    """The page was closed because it went beyond a limit."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class CdpSession:
    """Commands to one target of the browser (a page), and its events. The id "" is the browser itself."""

    def __init__(self, connection: "CdpConnection", session_id: str) -> None:
        self._connection = connection
        self._id = session_id
        self._handlers: dict[str, list[Handler]] = {}
        self._pending: dict[int, asyncio.Future[Params]] = {}
        self._error: Exception | None = None

    async def call(self, command: str, /, *, timeout_s: float | None = COMMAND_S, **params: Any) -> Params:
        """Send a command and return its result.

        Raise `CommandFailed`, `TargetGone`, `BrowserGone`, or `TimeoutError` after `timeout_s`.
        """
        [result] = await self.call_all([(command, params)], timeout_s=timeout_s)
        return result

    async def call_all(
        self, commands: Sequence[tuple[str, Params]], *, timeout_s: float | None = COMMAND_S
    ) -> list[Params]:
        """Send several commands at once and return their results; raise what the first failure raises."""
        self.check()
        loop = asyncio.get_running_loop()
        answers: dict[int, asyncio.Future[Params]] = {}
        try:
            for command, params in commands:
                number = self._connection.next_number()
                answers[number] = self._pending[number] = loop.create_future()
                self._connection.write(number, command, params, self._id)
            async with asyncio.timeout(timeout_s):
                return [await answer for answer in answers.values()]
        finally:
            for number, answer in answers.items():
                self._pending.pop(number, None)
                answer.cancel()
                if answer.done() and not answer.cancelled():
                    answer.exception()  # of those that were not awaited: nothing else asks for it

    def sibling(self, session_id: str) -> "CdpSession":
        """Return the session of a target that this one has attached to."""
        return self._connection.session(session_id)

    def check(self) -> None:
        """Raise if no command can be answered any more."""
        if self._error is not None:
            raise self._error

    def post(self, command: str, /, **params: Any) -> None:
        """Send a command whose answer does not matter."""
        if self._error is None:
            with suppress(BrowserGone):
                self._connection.write(self._connection.next_number(), command, params, self._id)

    def on(self, event: str, handler: Handler) -> None:
        """Call `handler` for each event of this name. It must not block."""
        self._handlers.setdefault(event, []).append(handler)

    def remove(self, event: str) -> None:
        """Call no handler for events of this name any more."""
        self._handlers.pop(event, None)

    def fail(self, error: Exception) -> None:
        """End every pending command, and refuse new ones."""
        if self._error is None:  # the first one says why
            self._error = error
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take one message of the browser: an answer or an event."""
        if (number := message.get("id")) is not None:
            answer = self._pending.get(number)
            if answer is None or answer.done():
                return
            if "error" in message:
                answer.set_exception(CommandFailed(str(message["error"].get("message", ""))[:500]))
            else:
                answer.set_result(message.get("result") or {})
            return
        event, params = message.get("method", ""), message.get("params") or {}
        for handler in self._handlers.get(event, ()):
            handler(params)
        if event == "Inspector.targetCrashed":
            self.fail(TargetGone("the renderer has crashed"))


class CdpConnection(asyncio.Protocol):
    """One browser's pipe, and the sessions of its targets."""

    def __init__(self) -> None:
        self._writer: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._searched = 0
        self._number = 0
        self._error: Exception | None = None
        self.browser = CdpSession(self, "")
        self._sessions: dict[str, CdpSession] = {"": self.browser}
        self.closed = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls, reading: int, writing: int) -> AsyncIterator["CdpConnection"]:
        """Speak to a browser over two file descriptors, which this closes."""
        loop = asyncio.get_running_loop()
        connection = cls()
        incoming, _ = await loop.connect_read_pipe(lambda: connection, os.fdopen(reading, "rb", 0))
        connection._writer, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(writing, "wb", 0))
        try:
            yield connection
        finally:
            connection.close(BrowserGone("the connection to the browser is closed"))
            incoming.close()
            connection._writer.close()

    def session(self, session_id: str) -> CdpSession:
        """Return the session of an attached target."""
        session = self._sessions[session_id] = CdpSession(self, session_id)
        if self._error is not None:
            session.fail(self._error)
        return session

    def forget(self, session_id: str) -> None:
        """End the commands of a target that is closed."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            session.fail(TargetGone("the page was closed"))

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def write(self, number: int, method: str, params: Params, session_id: str) -> None:
        if self._error is not None or self._writer is None or self._writer.is_closing():
            raise BrowserGone("the connection to the browser is closed")
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session_id:
            message["sessionId"] = session_id
        self._writer.write(json.dumps(message).encode() + b"\0")

    def close(self, error: Exception) -> None:
        """End every pending command of every session."""
        if self._error is None:
            self._error = error
            for session in self._sessions.values():
                session.fail(error)
            self.closed.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\0", self._searched)) >= 0:
            packed = bytes(self._received[:end])
            del self._received[: end + 1]
            self._searched = 0
            try:
                message = json.loads(packed)
            except ValueError as error:
                self.close(BrowserGone(f"the browser sent a message that cannot be read: {error}"))
                return
            self._dispatch(message)
        self._searched = len(self._received)
        if self._searched > MAX_MESSAGE_BYTES:
            self.close(BrowserGone(f"the browser sent a message of more than {MAX_MESSAGE_BYTES} bytes"))
            self._received.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(BrowserGone("the browser has ended"))

    def _dispatch(self, message: Mapping[str, Any]) -> None:
        if message.get("method") == "Target.detachedFromTarget":
            self.forget(message["params"]["sessionId"])
        if (session := self._sessions.get(message.get("sessionId", ""))) is not None:
            session.receive(message)
