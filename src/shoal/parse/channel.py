"""The pool's end of the connection to one child: pages out, answers in, and which page is to blame."""

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
from shoal.parse.frames import TOKENS, FrameKind, FrameReader, head
from shoal.parse.verdict import Cause

STALLED = 0.25  # seconds on one page after which no more are queued behind it
SEND_BUFFER = 1 << 20  # two full messages: a loop that is busy elsewhere must not starve the child
RECEIVE_BUFFER = 1 << 18

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ParseResult).decode

# One for all channels of the process: it is emptied before anybody else gets to run.
_received = memoryview(bytearray(RECEIVE_BUFFER))

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class Ticket(Generic[Answer]):
    """One page in the pool's care."""

    task: ParseTask
    on_answer: Callable[[Answer], None]
    strikes: int = 0


class Channel(Generic[Answer]):
    """The pages one child holds, in order, and the socket that they and their answers take."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop, *, output_bytes: int) -> None:
        self.number = number
        self.token = secrets.randbelow(TOKENS)
        self.unanswered: deque[Ticket[Answer]] = deque()
        self.messages: deque[int] = deque()  # pages left in each message that the child has
        self.pages = 0  # answered
        self.cpu = 0.0  # seconds, of the pages answered
        self.alone = False  # serves a page with a strike: nothing else is sent meanwhile
        self.since = 0.0  # when the first unanswered page became the first
        self.timer: asyncio.TimerHandle | None = None
        self.cause: Cause | None = None  # why we ended the child, if we did,
        self.accused: Ticket[Answer] | None = None  # and because of which page
        self.hung_up = False  # the child did
        self._loop = loop
        self._reader = FrameReader(self.token, FrameKind.RESULT, most=output_bytes)
        self._out: deque[memoryview] = deque()
        self._blocked = False  # the socket is full: the loop calls when it is not
        self._sock, self._theirs = socket.socketpair()
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    @property
    def serving(self) -> bool:
        """Whether the child can be given pages."""
        return self.cause is None and not self.hung_up

    @property
    def has_room(self) -> bool:
        """Whether pages sent now would be begun before long."""
        if not self.serving or self.alone or len(self.messages) >= batch.MESSAGES:
            return False
        return not self.unanswered or self._loop.time() - self.since < STALLED

    def open(self, on_readable: Callable[["Channel[Answer]"], None]) -> socket.socket:
        """Begin to listen; return the child's end, which is the caller's to give away."""
        self._loop.add_reader(self._sock, on_readable, self)
        return self._theirs

    def close(self) -> None:
        """Hang up. A child that waits for pages then ends by itself."""
        if self.timer is not None:
            self.timer.cancel()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()

    def send(self, tickets: Sequence[Ticket[Answer]]) -> None:
        if not self.unanswered:
            self.since = self._loop.time()
        self.unanswered.extend(tickets)
        self.messages.append(len(tickets))
        self._write(FrameKind.TASKS, _encode([ticket.task for ticket in tickets]))

    def tell(self, scope: bytes) -> None:
        """Let an encoded scope apply to everything sent from now on."""
        self._write(FrameKind.SCOPE, scope)

    def accuse(self, cause: Cause) -> None:
        """Note why the child is being ended. It may still answer before it is."""
        self.cause = cause
        self.accused = self.unanswered[0] if self.unanswered else None

    def culprit(self) -> Ticket[Answer] | None:
        """Name the page to blame now that the child is gone; None: nobody."""
        if not self.unanswered or (self.cause is not None and self.accused is not self.unanswered[0]):
            return None
        return self.unanswered[0]

    def receive(self, *, everything: bool = False) -> list[tuple[Ticket[Answer], ParseResult]]:
        """Take answers off the socket: what one look finds, or everything that is there.

        On junk the first unanswered page stands accused; at the end of the stream `hung_up` is set.
        """
        answers: list[tuple[Ticket[Answer], ParseResult]] = []
        while self._receive(answers) and everything:
            pass
        if answers:
            self.since = self._loop.time()
            self.alone = False
        return answers

    def _receive(self, answers: list[tuple[Ticket[Answer], ParseResult]]) -> bool:
        if self.hung_up or self.cause is Cause.JUNK:
            return False
        try:
            count = self._sock.recv_into(_received)
        except BlockingIOError:
            return False
        except ConnectionError:  # it died with unread pages in its socket; answers come before this error
            count = 0
        if count == 0:
            self.hung_up = True
            self._loop.remove_reader(self._sock)
            return False
        try:
            for payload in self._reader.feed(_received[:count]):
                answer = self._answer(_decode(payload))
                answers.append(answer)
        except (msgspec.DecodeError, LookupError):
            self._reader.junk = True
        if self._reader.junk:
            self.accuse(Cause.JUNK)
            self._loop.remove_reader(self._sock)
        return True

    def _answer(self, result: ParseResult) -> tuple[Ticket[Answer], ParseResult]:
        if result.id != self.unanswered[0].task.id:
            raise LookupError("an answer nobody asked for")
        self.pages += 1
        self.cpu += result.cpu
        self.messages[0] -= 1
        if not self.messages[0]:
            self.messages.popleft()
        return self.unanswered.popleft(), result

    def _write(self, kind: FrameKind, payload: bytes) -> None:
        self._out += (memoryview(head(self.token, kind, payload)), memoryview(payload))
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
        except ConnectionError:  # it is gone; its end is about to be reported
            self._out.clear()
        if self._blocked and not self._out:
            self._loop.remove_writer(self._sock)
        elif self._out and not self._blocked:
            self._loop.add_writer(self._sock, self._flush)
        self._blocked = bool(self._out)
