"""Ranges of IP addresses that an operator may open to crawls, and the addresses that stay forbidden. Pure
rules."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from shoal.model.errors import Rejected

Network = IPv4Network | IPv6Network

PRIVATE: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)
"""What `crawl.allow_private` allows: loopback, and the ranges of private networks."""

# Shared by providers and overlay networks: private for some, so only an explicit range opens it.
_SHARED = ip_network("100.64.0.0/10")


def address_range(text: str) -> Network:
    """Return a range of loopback or private addresses; raise `Rejected` for any other text."""
    try:
        network = ip_network(text.strip())
    except ValueError:
        raise Rejected(
            f"{text[:60]!r} is not an address range, such as 10.1.2.0/24 or fd12:3456::/32"
        ) from None
    if not is_covered(network, (*PRIVATE, _SHARED)):
        known = ", ".join(map(str, (*PRIVATE, _SHARED)))
        raise Rejected(f"{network} is not a range of loopback or private addresses: {known}")
    return network


def address_ranges(texts: Iterable[str], *, private: bool = False) -> tuple[Network, ...]:
    """Return the ranges that settings allow; `private`: all of `PRIVATE` as well."""
    return (*(PRIVATE if private else ()), *map(address_range, texts))


def is_covered(network: Network, ranges: Iterable[Network]) -> bool:
    """Return whether one of the ranges contains a whole network."""
    return any(
        network.subnet_of(other)  # type: ignore[arg-type]
        for other in ranges
        if other.version == network.version
    )
