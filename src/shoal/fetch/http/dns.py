"""Resolve names to addresses: one query per name at a time, results cached for their TTL.

The cache is bounded by count, and so is each result: of a name with a thousand addresses only the first few
are used.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import ip_address
from types import TracebackType
from typing import Self

import aiodns
import pycares

from shoal.fetch.http.guard import is_ip_literal
from shoal.model.failure import Failure, FailureClass

Answer = tuple[str, ...] | Failure

MAX_NAMES = 25_000  # 28 MB, if all of them are long and have MAX_ADDRESSES
MAX_ADDRESSES = 8
MIN_TTL_S, MAX_TTL_S = 5.0, 3600.0  # neither one query per page nor stale for days
NEGATIVE_TTL_S = 5.0

LOOPBACK = ("127.0.0.1", "::1")


def is_nameserver(text: str) -> bool:
    """Return whether `text` is a DNS server: 192.0.2.1, 192.0.2.1:53, 2001:db8::1 or [2001:db8::1]:53."""
    host, _, port = text.rpartition(":") if text.count(":") == 1 or "]:" in text else (text, "", "53")
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16


class DnsResolver:
    """Resolves names by DNS and the hosts file, with a cache."""

    def __init__(
        self, *, nameservers: Sequence[str] = (), timeout: float = 10.0, names: int = MAX_NAMES
    ) -> None:
        self._nameservers = nameservers
        self._timeout = timeout
        self._names = names
        self._cache: OrderedDict[str, tuple[float, Answer]] = OrderedDict()
        self._asked: dict[str, asyncio.Future[Answer]] = {}

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        # Without search domains: a name that does not exist must not resolve to one inside the local network.
        self._dns = aiodns.DNSResolver(
            nameservers=self._nameservers or None,
            timeout=self._timeout / 4,
            tries=2,
            flags=pycares.ARES_FLAG_NOSEARCH,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._dns.close()

    async def resolve(self, host: str) -> Answer:
        """Return the addresses of `host` in the order to try them, or a failure."""
        if is_ip_literal(host):
            return (host,)
        if host == "localhost" or host.endswith(".localhost"):
            return LOOPBACK  # RFC 6761: never sent to a DNS server
        cached = self._cache.get(host)
        if cached is not None and cached[0] > self._loop.time():
            return cached[1]
        try:
            async with asyncio.timeout(self._timeout):
                # Shielded: the query is shared, and one caller that is cancelled must not cancel it for
                # others.
                return await asyncio.shield(self._asked.get(host) or self._ask(host))
        except TimeoutError:
            return Failure(FailureClass.DNS, f"no answer from DNS within {self._timeout:g} s")

    def _ask(self, host: str) -> asyncio.Future[Answer]:
        question = self._dns.getaddrinfo(host)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._asked[host] = answer
        question.add_done_callback(lambda done: self._keep(host, done, answer))
        return answer

    def _keep(
        self, host: str, question: asyncio.Future[pycares.AddrInfoResult], answer: asyncio.Future[Answer]
    ) -> None:
        del self._asked[host]
        result, lifetime = _read(question)
        self._cache[host] = (self._loop.time() + lifetime, result)
        self._cache.move_to_end(host)
        if len(self._cache) > self._names:
            self._cache.popitem(last=False)
        answer.set_result(result)


def _read(question: asyncio.Future[pycares.AddrInfoResult]) -> tuple[Answer, float]:
    """Return the addresses in a result, or a failure, and the seconds to cache it for."""
    if question.cancelled():
        return Failure(FailureClass.DNS, "the resolver was closed"), 0.0
    if error := question.exception():
        text = error.args[1] if len(error.args) > 1 else str(error)
        return Failure(FailureClass.DNS, f"the name does not resolve: {text}"), NEGATIVE_TTL_S
    nodes = question.result().nodes[:MAX_ADDRESSES]
    if not nodes:
        return Failure(FailureClass.DNS, "the name has no address"), NEGATIVE_TTL_S
    lifetime = min(max(min(node.ttl for node in nodes), MIN_TTL_S), MAX_TTL_S)
    return tuple(dict.fromkeys(node.addr[0].decode() for node in nodes)), lifetime
