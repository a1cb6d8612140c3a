"""A parse child: run the spider on page after page, answering each before beginning the next.

That order is what makes blame exact: whatever ends this process, the first page without an answer did it.
What a child has to say apart from results it says by its exit status (`verdict.Exit`): a process that is out
of memory should not have to compose a message.
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
from typing import NoReturn

import msgspec

from shoal.model.limits import ParseLimits
from shoal.model.page import ParseResult, ParseTask
from shoal.model.scope import Scope
from shoal.parse.frames import FrameKind, Junk, checked, receive
from shoal.parse.sandbox import confine
from shoal.parse.verdict import ChildExit
from shoal.spider.run import OutputTooLarge

Parse = Callable[[ParseTask, Scope], ParseResult]

CHECK_EVERY = 32  # pages between two looks at how much the child has grown

_encode = msgspec.msgpack.Encoder().encode
_decode_tasks = msgspec.msgpack.Decoder(list[ParseTask]).decode
_decode_scope = msgspec.msgpack.Decoder(Scope).decode


def main(sock: socket.socket, token: int, parse: Parse, limits: ParseLimits) -> NoReturn:
    """Be a child from here on, right after the fork."""
    status = ChildExit.LEFT
    try:
        sock = _settle_in(sock, limits)
        status = Child(sock, token, parse, limits).serve()
    except MemoryError:
        status = ChildExit.MEMORY
    except OutputTooLarge:
        status = ChildExit.OUTPUT
    except (Junk, msgspec.DecodeError):
        status = ChildExit.CONFUSED
    except ConnectionError:  # the parent has left without waiting for an answer: so do we
        status = ChildExit.DONE
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)  # never back into the zygote's stack, whatever was raised


def _settle_in(sock: socket.socket, limits: ParseLimits) -> socket.socket:
    os.setsid()  # a group of its own: kill(0, ...) reaches nobody else
    # At a number nobody guesses: user code that closes or writes to "all" files should not mean this one.
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = min(most, 4096) // 2
    hidden = _move(sock.detach(), half + secrets.randbelow(half))
    os.closerange(3, hidden)
    os.closerange(hidden + 1, most)
    faulthandler.enable(2)
    confine.limit(memory_bytes=limits.memory_bytes)
    confine.part()
    confine.forbid(lambda: os._exit(ChildExit.SIGNALLED))
    return socket.socket(fileno=hidden)


def _move(fd: int, number: int) -> int:
    os.dup2(fd, number, inheritable=False)
    os.close(fd)
    return number


class Child:
    def __init__(self, sock: socket.socket, token: int, parse: Parse, limits: ParseLimits) -> None:
        self._sock = sock
        self._token = token
        self._parse = parse
        self._limits = limits
        self._scope: Scope | None = None
        self._cpu_until = 0
        self._pages = 0
        self._grown = confine.memory_in_use() + limits.memory_bytes // 2

    def serve(self) -> ChildExit:
        """Answer pages until the parent hangs up or this process should not go on."""
        while (message := receive(self._sock, self._token)) is not None:
            kind, payload, _ = message
            if kind is FrameKind.SCOPE:
                self._scope = _decode_scope(payload)
                continue
            for task in _decode_tasks(payload):
                if (end := self._page(task)) is not None:
                    return end
        return ChildExit.DONE

    def _page(self, task: ParseTask) -> ChildExit | None:
        assert self._scope is not None, "a child is told its scope first"
        self._allow_cpu()
        result = self._parse(task, self._scope)
        payload = _encode(result)
        if len(payload) > self._limits.output_bytes:
            return ChildExit.OUTPUT
        self._sock.sendall(checked(self._token, FrameKind.RESULT, payload))
        self._pages += 1
        # A fault may have left something behind (open files, memory); the others only add up slowly.
        if (result.fault is not None or self._pages % CHECK_EVERY == 0) and self._worn():
            return ChildExit.WORN
        return None

    def _allow_cpu(self) -> None:
        """Give the page its CPU seconds, counted from now. The kernel counts whole ones."""
        until = math.ceil(time.process_time() + self._limits.cpu)
        if until != self._cpu_until:
            self._cpu_until = until
            resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))

    def _worn(self) -> bool:
        try:
            return confine.memory_in_use() > self._grown
        except OSError:
            return True
