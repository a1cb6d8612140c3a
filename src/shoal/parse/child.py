"""A parse child: runs the spider on one page after another, and answers each before it starts the next.

So the page to blame is always known: whatever ends this process, the first page without an answer caused it.
A child reports everything but results by its exit status (`verdict.ChildExit`): a process that is out of
memory should not have to compose a message.
"""

import faulthandler
import math
import os
import resource
import secrets
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from shoal.model.limits import MIB, ParseLimits
from shoal.model.page import ParseResult, ParseTask
from shoal.model.scope import Scope
from shoal.parse.frames import FrameType, InvalidFrame, checksummed_frame, checksummed_header, receive
from shoal.parse.page_memory import is_large
from shoal.parse.sandbox import confine, limits
from shoal.parse.sandbox.guarantees import Guarantee
from shoal.parse.verdict import ChildExit
from shoal.spider.run import OutputTooLarge

Parse = Callable[[ParseTask, Scope], ParseResult]

CHECK_EVERY_PAGES = 32  # pages between two checks of the child's memory
KEPT_BYTES = 32 * MIB  # that a child may keep after a large page

_encode = msgspec.msgpack.Encoder().encode
_decode_tasks = msgspec.msgpack.Decoder(list[ParseTask]).decode
_decode_scope = msgspec.msgpack.Decoder(Scope).decode


@dataclass(frozen=True, slots=True)
class Rights:
    """What a child inherits from its fork server, and what it may use."""

    limits: ParseLimits
    held: frozenset[str]  # guarantees of the sandbox
    memory_in_use: int  # bytes of address space at the fork
    forbid_in_child: Callable[[Callable[[], None]], None] | None  # of the audit hook, if there is one


def main(sock: socket.socket, token: int, parse: Parse, rights: Rights) -> NoReturn:
    """Run a child, right after the fork. Never returns."""
    status = ChildExit.RAISED_EXIT
    try:
        sock = _prepare_process(sock, rights)
        status = Child(sock, token, parse, rights.limits).serve()
    except MemoryError:
        status = ChildExit.MEMORY
    except OutputTooLarge:
        status = ChildExit.OUTPUT
    except (InvalidFrame, msgspec.DecodeError):
        status = ChildExit.BAD_INPUT
    except ConnectionError:  # the parent closed the connection without waiting for an answer
        status = ChildExit.DONE
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)  # never return into the fork server's stack


def _prepare_process(sock: socket.socket, rights: Rights) -> socket.socket:
    """Apply the limits of a child, and return the socket at another file descriptor."""
    # A random descriptor: user code that closes or writes to "all" descriptors should not hit this one.
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = min(limit, 4096) // 2
    hidden = _move(sock.detach(), half + secrets.randbelow(half))
    os.closerange(3, hidden)
    os.closerange(hidden + 1, limit)
    faulthandler.enable(2)
    sock = socket.socket(fileno=hidden)
    limits.limit_memory(rights.memory_in_use + rights.limits.memory_bytes)
    limits.limit_child(threads=Guarantee.PROCESSES in rights.held)
    if rights.forbid_in_child is not None:
        rights.forbid_in_child(lambda: os._exit(ChildExit.SIGNALLED))
        confine.restrict_child(rights.held)
    return sock


def _move(fd: int, number: int) -> int:
    os.dup2(fd, number, inheritable=False)
    os.close(fd)
    return number


class Child:
    def __init__(self, sock: socket.socket, token: int, parse: Parse, page_limits: ParseLimits) -> None:
        self._sock = sock
        self._token = token
        self._parse = parse
        self._limits = page_limits
        self._scope: Scope | None = None
        self._cpu_until = 0
        self._pages = 0

    def serve(self) -> ChildExit:
        """Answer pages until the parent closes the connection or this process should be replaced."""
        while (message := receive(self._sock, self._token)) is not None:
            kind, payload, _ = message
            if kind is FrameType.SCOPE:
                self._scope = _decode_scope(payload)
                continue
            tasks = _decode_tasks(payload)
            del message, payload  # they are as large as the pages
            for task in tasks:
                if (end := self._parse_page(task)) is not None:
                    return end
            del tasks, task
        return ChildExit.DONE

    def _parse_page(self, task: ParseTask) -> ChildExit | None:
        assert self._scope is not None, "the parent sends the scope first"
        self._allow_cpu()
        result = self._parse(task, self._scope)
        payload = _encode(result)
        if len(payload) > self._limits.output_bytes:
            return ChildExit.OUTPUT
        faulty = result.fault is not None
        del result
        if is_large(payload):
            self._sock.sendall(checksummed_header(self._token, FrameType.RESULT, payload))
            self._sock.sendall(payload)
        else:
            self._sock.sendall(checksummed_frame(self._token, FrameType.RESULT, payload))
        self._pages += 1
        if is_large(task.body) and not limits.has_room(self._limits.memory_bytes - KEPT_BYTES):
            return ChildExit.RECYCLE  # what a large page has used is not given back before the process ends
        # A fault may leave open files or memory behind; without one, growth is slow.
        if (faulty or self._pages % CHECK_EVERY_PAGES == 0) and self._should_recycle():
            return ChildExit.RECYCLE
        return None

    def _allow_cpu(self) -> None:
        """Set the CPU limit for the next page, counted from now. The kernel counts whole seconds."""
        until = math.ceil(time.process_time() + self._limits.cpu)
        if until != self._cpu_until:
            self._cpu_until = until
            resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))

    def _should_recycle(self) -> bool:
        """Return whether half of the memory, or every file descriptor, is in use."""
        try:
            os.close(os.dup(self._sock.fileno()))
        except OSError:
            return True
        return not limits.has_room(self._limits.memory_bytes // 2)
