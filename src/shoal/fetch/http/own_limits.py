"""Connections that this machine cannot open because it has no socket left: no fault of any host.

Too many open files, in this process or on the machine, or too little kernel memory says nothing about a URL,
an exit or a name. Such a request has not been sent, and is tried again; it is charged no attempt.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic
from typing import TypeVar

log = logging.getLogger(__name__)

OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
RETRY_S = 0.5  # before a request is tried again that found no socket
_LOG_EVERY_S = 30.0
LOOK_UP_SOCKETS = 6  # files that a channel of c-ares opens, and one more

P = TypeVar("P", bound=asyncio.BaseProtocol)


class OutOfSockets(Exception):
    """This machine has no socket for one more connection."""


async def connect(factory: Callable[[], P], address: str, port: int) -> tuple[asyncio.Transport, P]:
    """Connect to an address. Raises `OSError`, or `OutOfSockets` if nothing was tried."""
    try:
        return await asyncio.get_running_loop().create_connection(factory, address, port)
    except OSError as error:
        raise_if_ours(error)
        raise


def raise_if_ours(error: OSError) -> None:
    """Raise `OutOfSockets` if an error says that this machine has no socket left."""
    if error.errno in OURS:
        _warning.log(error)
        raise OutOfSockets(error.strerror) from error


def check_own_limits() -> None:
    """Raise `OutOfSockets` if this machine lacks the sockets of a look-up, of which c-ares does not tell."""
    try:
        with ExitStack() as opened:
            for _ in range(LOOK_UP_SOCKETS):
                opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    except OSError as error:
        raise_if_ours(error)


class _Warning:
    """Logs once in a while, however many requests find no socket."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def log(self, error: OSError) -> None:
        if (now := monotonic()) >= self._next_at:
            self._next_at = now + _LOG_EVERY_S
            log.warning("sockets.exhausted", extra={"why": error.strerror, "remedy": "raise ulimit -n"})


_warning = _Warning()
