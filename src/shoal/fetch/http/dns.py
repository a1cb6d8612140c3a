"""Resolve names to addresses: one query per name at a time, results cached for their TTL.

All addresses of a name are returned, because the guard judges all of them; a name with very many is a
failure. The cache is bounded by names and by addresses.

An answer that c-ares cannot parse makes it fail or drop every query that is under way on the same channel,
whatever its name. So there are several channels, and all names of one domain use the same one. A look-up that
fails for such a reason is repeated on a separate channel, where no other name can disturb it, and a name
that fails there, too, is asked there from then on. One that times out is repeated on another shared channel.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Self

from shoal.fetch.http import own_limits
from shoal.fetch.http.guard import is_ip_literal
from shoal.model.failure import Failure, FailureClass

if TYPE_CHECKING:  # imported for the first look-up: it takes a while, and not every command has one
    import aiodns
    import pycares

    Result = pycares.AddrInfoResult | aiodns.error.DNSError  # of c-ares

Answer = tuple[str, ...] | Failure

MAX_NAMES = 25_000
MAX_CACHED_ADDRESSES = 200_000  # with MAX_NAMES: 28 MB
MAX_ADDRESSES = 256  # of one name
MIN_TTL_S, MAX_TTL_S = 5.0, 3600.0  # neither one query per page nor stale for days
NEGATIVE_TTL_S = 5.0
CHANNELS = 4  # shared ones; each has a thread of c-ares and four open files
ALONE_AT_ONCE = 16  # look-ups on separate channels
MAX_DISTURBING = 1_000  # names that are known to fail there

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
        self._cached_addresses = 0
        self._asked: dict[str, asyncio.Task[Answer]] = {}
        self._alone = asyncio.Semaphore(ALONE_AT_ONCE)
        self._disturbing: OrderedDict[str, None] = OrderedDict()  # names that fail alone, too
        self._shared: dict[int, aiodns.DNSResolver] = {}  # by number; opened when first used

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    def _shared_channel(self, number: int) -> "aiodns.DNSResolver":
        number %= CHANNELS
        if number not in self._shared:
            self._shared[number] = self._channel()
        return self._shared[number]

    def _channel(self) -> "aiodns.DNSResolver":
        import aiodns
        import pycares

        return aiodns.DNSResolver(
            nameservers=self._nameservers or None,
            timeout=self._timeout / 5,  # so that there is time for a second channel
            tries=2,
            # A name that does not exist must not resolve to one of a search domain inside the local network.
            flags=pycares.ARES_FLAG_NOSEARCH,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in list(self._asked.values()):
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        for channel in self._shared.values():
            await channel.close()

    async def resolve(self, host: str) -> Answer:
        """Return the addresses of `host` in the order to try them, or a failure. Raises `OutOfSockets`."""
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

    def _ask(self, host: str) -> asyncio.Task[Answer]:
        task = self._asked[host] = self._loop.create_task(self._look_up(host))
        task.add_done_callback(lambda ended: self._forget(host, ended))
        return task

    def _forget(self, host: str, ended: asyncio.Task[Answer]) -> None:
        self._asked.pop(host, None)
        if not ended.cancelled():
            ended.exception()  # marks it as retrieved: every caller may have been cancelled

    async def _look_up(self, host: str) -> Answer:
        try:
            import aiodns
        except OSError as error:
            own_limits.raise_if_ours(error)
            raise
        result: Result = aiodns.error.DNSError(aiodns.error.ARES_EBADRESP, "")
        if host not in self._disturbing:
            # Randomised for each process: a site cannot choose names that share a channel with others.
            number = hash(".".join(host.split(".")[-2:]))
            result = await _query(self._shared_channel(number), host)
            if _timed_out(result):
                result = await _query(self._shared_channel(number + 1), host)
        if _is_disturbed(result):
            own_limits.check_own_limits()
            result = await self._look_up_alone(host)
            if _is_disturbed(result):
                own_limits.check_own_limits()
        answer, lifetime = _read(result)
        self._keep(host, answer, lifetime)
        return answer

    async def _look_up_alone(self, host: str) -> "Result":
        async with self._alone:
            channel = self._channel()
            try:
                result = await _query(channel, host)
            finally:
                await channel.close()
        if _is_disturbed(result):
            self._disturbing[host] = None
            if len(self._disturbing) > MAX_DISTURBING:
                self._disturbing.popitem(last=False)
        return result

    def _keep(self, host: str, answer: Answer, lifetime: float) -> None:
        self._drop(host)
        self._cache[host] = (self._loop.time() + lifetime, answer)
        self._cached_addresses += _weight(answer)
        while len(self._cache) > self._names or self._cached_addresses > MAX_CACHED_ADDRESSES:
            self._drop(next(iter(self._cache)))

    def _drop(self, host: str) -> None:
        if (cached := self._cache.pop(host, None)) is not None:
            self._cached_addresses -= _weight(cached[1])


async def _query(channel: "aiodns.DNSResolver", host: str) -> "Result":
    import aiodns

    try:
        return await channel.getaddrinfo(host)
    except aiodns.error.DNSError as error:
        return error


def _is_disturbed(result: "Result") -> bool:
    """Return whether another name's answer may be the reason for a failure."""
    from aiodns import error

    final = (  # the name itself is the reason: asking again alone would not help
        error.ARES_ENOTFOUND,
        error.ARES_ENODATA,
        error.ARES_EBADNAME,
        error.ARES_ETIMEOUT,
        error.ARES_ECANCELLED,
        error.ARES_EDESTRUCTION,
    )
    return isinstance(result, error.DNSError) and result.args[0] not in final


def _timed_out(result: "Result") -> bool:
    from aiodns import error

    return isinstance(result, error.DNSError) and result.args[0] == error.ARES_ETIMEOUT


def _weight(answer: Answer) -> int:
    return 0 if isinstance(answer, Failure) else len(answer)


def _read(result: "Result") -> tuple[Answer, float]:
    """Return the addresses in a result, or a failure, and the seconds to cache it for."""
    from aiodns import error

    if isinstance(result, error.DNSError):
        text = result.args[1] if len(result.args) > 1 else str(result)
        return Failure(FailureClass.DNS, f"the name does not resolve: {text}"), NEGATIVE_TTL_S
    nodes = result.nodes
    if not nodes:
        return Failure(FailureClass.DNS, "the name has no address"), NEGATIVE_TTL_S
    addresses = tuple(dict.fromkeys(node.addr[0].decode() for node in nodes))
    if len(addresses) > MAX_ADDRESSES:
        return Failure(FailureClass.DNS, f"the name has more than {MAX_ADDRESSES} addresses"), NEGATIVE_TTL_S
    lifetime = min(max(min(node.ttl for node in nodes), MIN_TTL_S), MAX_TTL_S)
    return addresses, lifetime
