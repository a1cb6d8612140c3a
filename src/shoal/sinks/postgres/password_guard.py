"""The password of a database goes to its server only in a form that is useless to others.

Any server can ask for the password in clear text, or as an MD5 digest that is as good as the password. A
connection to another machine is therefore refused unless the server's certificate was checked
(`sslmode=verify-full`), or the server asks for SCRAM, which proves that both sides know the password
without sending it. libpq calls this `require_auth`; asyncpg has no such option, so its protocol is extended
here: what the server sends before the login is complete passes through `LoginGuard` first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from asyncpg import connect_utils, protocol

_VERIFIED = frozenset({"verify-ca", "verify-full"})
_MAX_LOGIN_BYTES = 1 << 20
_AUTHENTICATION, _READY = ord("R"), ord("Z")
_HARMLESS = frozenset({0, 10, 11, 12})  # logged in, and the three steps of SASL
_HEADER_BYTES = 5


@dataclass(slots=True)
class LoginAttempt:
    """One attempt to log in, and why it was refused."""

    refusal: str = ""


_login: ContextVar[LoginAttempt | None] = ContextVar("shoal_postgres_login", default=None)


class LoginGuard:
    """Reads the server's messages until the login is complete; says whether they may be passed on."""

    def __init__(self) -> None:
        self._pending = b""
        self.done = False

    def take(self, data: bytes) -> tuple[bytes, str]:
        """Return the bytes to pass on, and why the connection has to end; empty: it continues."""
        self._pending += data
        at = 0
        while not self.done and len(self._pending) - at >= _HEADER_BYTES:
            kind, length = self._pending[at], int.from_bytes(self._pending[at + 1 : at + _HEADER_BYTES])
            end = at + 1 + length
            if length < 4 or end - at > _MAX_LOGIN_BYTES:
                return b"", "the server does not speak the protocol of PostgreSQL"
            if len(self._pending) < end:
                break
            if kind == _AUTHENTICATION:
                asked = int.from_bytes(self._pending[at + _HEADER_BYTES : at + _HEADER_BYTES + 4])
                if asked not in _HARMLESS:
                    return b"", (
                        "the server asks for the password in a form that others could use: set scram-sha-256"
                        " in its pg_hba.conf, or add sslmode=verify-full to the address"
                    )
            self.done = kind == _READY
            at = end
        if self.done:
            at = len(self._pending)
        passed, self._pending = self._pending[:at], self._pending[at:]
        return passed, ""


class _GuardedProtocol(protocol.Protocol):
    """asyncpg's protocol, with a guard where a login is guarded."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._login = _login.get()
        self._guard = LoginGuard() if self._login is not None else None

    def data_received(self, data: Any) -> None:
        if self._guard is not None and self._login is not None:
            data, self._login.refusal = self._guard.take(bytes(data))
            if self._login.refusal:
                self.abort()
                return
            if self._guard.done:
                self._guard = None
        super().data_received(data)


class _Protocols(ModuleType):
    """The module of asyncpg that its connections take their protocol from."""

    def __getattr__(self, name: str) -> object:
        return getattr(protocol, name)


_protocols = _Protocols("asyncpg.protocol")
_protocols.Protocol = _GuardedProtocol  # type: ignore[attr-defined]


@contextmanager
def guarded_login(dsn: str) -> Iterator[LoginAttempt]:
    """Guard the login of connections that are opened in the block, unless the server is this machine or
    verified."""
    login = LoginAttempt()
    if not needs_guard(dsn):
        yield login
        return
    connect_utils.protocol = _protocols  # type: ignore[attr-defined]
    token = _login.set(login)
    try:
        yield login
    finally:
        _login.reset(token)


def needs_guard(dsn: str) -> bool:
    """Return whether a password for this address could reach another machine without a check of its
    certificate."""
    parts = urlsplit(dsn)
    options = dict(parse_qsl(parts.query))
    mode = options.get("sslmode") or os.environ.get("PGSSLMODE", "")
    if mode in _VERIFIED:
        return False
    if "service" in options or os.environ.get("PGSERVICE"):
        return True  # the host is in a file
    place = parts.netloc.rpartition("@")[2]
    hosts = options.get("host") or place or os.environ.get("PGHOST", "")
    return not all(map(_is_local, hosts.split(",")))


def _is_local(place: str) -> bool:
    host = unquote(place)
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    if host in ("", "localhost") or host.startswith("/"):  # empty, or a path: a socket
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
