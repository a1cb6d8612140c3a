"""The pool's side of the connection to one child: send pages, receive answers, know which page to blame."""

import asyncio
import secrets
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from shoal.model.page import ParseResult, ParseTask
from shoal.parse import batch
from shoal.parse.frames import TOKENS, FrameReader, FrameType, header
from shoal.parse.verdict import KillReason

STALLED_S = 0.25  # after this time on one page, no more pages are queued behind it
SEND_BUFFER_BYTES = 1 << 20  # two full messages: a busy event loop must not leave the child without work
RECEIVE_BUFFER_BYTES = 1 << 18

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ParseResult).decode

# One for all channels of the process: it is read completely before another callback runs.
_received = memoryview(bytearray(RECEIVE_BUFFER_BYTES))

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class PendingPage(Generic[Answer]):
    """A page that was submitted and is not yet answered."""

    task: ParseTask
    on_answer: Callable[[Answer], None]
    strikes: int = 0
    counted: int = 0  # bytes of `PageMemory`, while a child has it


class Channel(Generic[Answer]):
    """The connection to one child, and the pages that the child holds, in order."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop, *, output_bytes: int) -> None:
        self.number = number
        self.token = secrets.randbelow(TOKENS)
        self.unanswered: deque[PendingPage[Answer]] = deque()
        self.messages: deque[int] = deque()  # unanswered pages in each message that the child has
        self.pages = 0  # answered
        self.cpu = 0.0  # CPU seconds of the answered pages
        self.alone = False  # it parses a page with a strike: no other page is sent to it
        self.since = 0.0  # when the child started the first unanswered page
        self.timer: asyncio.TimerHandle | None = None
        self.kill_reason: KillReason | None = None  # why the pool kills the child,
        self.blamed: PendingPage[Answer] | None = None  # and because of which page
        self.closed_by_child = False
        self.started_at = loop.time()
        self.retiring = False  # no more pages are sent: it ends when it has answered those that it holds
        self._loop = loop
        self._reader = FrameReader(self.token, FrameType.RESULT, most=output_bytes)
        self._out: deque[memoryview] = deque()
        self._blocked = False  # the socket is full: the loop calls `_flush` when it is writable
        self._sock, self._theirs = socket.socketpair()
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    @property
    def serving(self) -> bool:
        """Whether the child can take pages."""
        return self.kill_reason is None and not self.closed_by_child

    @property
    def has_room(self) -> bool:
        """Whether the child would start pages that are sent now soon."""
        if not self.serving or self.alone or self.retiring or len(self.messages) >= batch.MAX_MESSAGES:
            return False
        return not self.unanswered or self._loop.time() - self.since < STALLED_S

    def open(self, on_readable: Callable[["Channel[Answer]"], None]) -> socket.socket:
        """Start listening, and return the child's end of the socket pair, which the caller passes on."""
        self._loop.add_reader(self._sock, on_readable, self)
        return self._theirs

    def close(self) -> None:
        """Close the connection. A child that waits for pages then exits."""
        if self.timer is not None:
            self.timer.cancel()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()

    def send(self, pending_pages: Sequence[PendingPage[Answer]]) -> None:
        if not self.unanswered:
            self.since = self._loop.time()
        self.unanswered.extend(pending_pages)
        self.messages.append(len(pending_pages))
        self._write(FrameType.TASKS, _encode([pending.task for pending in pending_pages]))

    def send_scope(self, scope: bytes) -> None:
        """Send an encoded scope, which applies to all pages sent afterwards."""
        self._write(FrameType.SCOPE, scope)

    def blame(self, reason: KillReason) -> None:
        """Record why the child is about to be killed. It may still answer before that."""
        self.kill_reason = reason
        self.blamed = self.unanswered[0] if self.unanswered else None

    def blamed_page(self) -> PendingPage[Answer] | None:
        """Return the page to blame for the end of the child, or None."""
        if not self.unanswered or (self.kill_reason is not None and self.blamed is not self.unanswered[0]):
            return None
        return self.unanswered[0]

    def receive(self, *, everything: bool = False) -> list[tuple[PendingPage[Answer], ParseResult]]:
        """Return the answers on the socket: those of one read, or with `everything` all that are there.

        Invalid data blames the first unanswered page; at the end of the stream `closed_by_child` is set.
        """
        answers: list[tuple[PendingPage[Answer], ParseResult]] = []
        while self._receive(answers) and everything:
            pass
        if answers:
            self.since = self._loop.time()
            self.alone = False
        return answers

    def _receive(self, answers: list[tuple[PendingPage[Answer], ParseResult]]) -> bool:
        if self.closed_by_child or self.kill_reason is KillReason.INVALID_DATA:
            return False
        try:
            count = self._sock.recv_into(_received)
        except BlockingIOError:
            return False
        except ConnectionError:  # the child died with unread pages in its socket; its answers have been read
            count = 0
        if count == 0:
            self.closed_by_child = True
            self._loop.remove_reader(self._sock)
            return False
        try:
            for payload in self._reader.feed(_received[:count]):
                answer = self._answer(_decode(payload))
                answers.append(answer)
        except (msgspec.DecodeError, LookupError):
            self._reader.invalid = True
        if self._reader.invalid:
            self.blame(KillReason.INVALID_DATA)
            self._loop.remove_reader(self._sock)
        return True

    def _answer(self, result: ParseResult) -> tuple[PendingPage[Answer], ParseResult]:
        if result.id != self.unanswered[0].task.id:
            raise LookupError("an answer for another page")
        self.pages += 1
        self.cpu += result.cpu
        self.messages[0] -= 1
        if not self.messages[0]:
            self.messages.popleft()
        return self.unanswered.popleft(), result

    def _write(self, kind: FrameType, payload: bytes) -> None:
        self._out += (memoryview(header(self.token, kind, payload)), memoryview(payload))
        if not self._blocked:
            self._flush()

    def _flush(self) -> None:
        try:
            while self._out:
                sent = self._sock.sendmsg(self._out)
                while self._out and sent >= len(self._out[0]):
                    sent -= len(self._out.popleft())
                if sent:
                    self._out[0] = self._out[0][sent:]
        except BlockingIOError:
            pass
        except ConnectionError:  # the child is dead; the fork server is about to report it
            self._out.clear()
        if self._blocked and not self._out:
            self._loop.remove_writer(self._sock)
        elif self._out and not self._blocked:
            self._loop.add_writer(self._sock, self._flush)
        self._blocked = bool(self._out)
