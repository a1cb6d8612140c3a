"""The connect guard: which schemes, ports and addresses a socket may be opened to. Pure rules.

Everything that opens a socket checks it here first: pages, redirect targets, robots.txt. A name is resolved
once, every address it resolves to is checked, and the connection goes to a checked address and not to the
name, so a second lookup with another result (DNS rebinding) has no effect. One forbidden address among
several refuses the name, because a client may pick any of them.

Global unicast addresses are allowed. `ranges` also allows loopback and private addresses, to crawl an
internal network; link-local addresses, multicast, reserved ranges and the addresses where clouds serve the
credentials of a machine stay forbidden. An IPv4 address embedded in IPv6 is judged by the IPv4 address, and
is never allowed as private.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import ada_url
import msgspec

from shoal.model.configuration.address_ranges import PRIVATE, Network
from shoal.model.failure import Failure, FailureClass

DEFAULT_PORTS = {"http": 80, "https": 443}

# The list of the WHATWG fetch standard, plus Redis and memcached, which run lines of an HTTP request as
# commands. fmt: off
BAD_PORTS = frozenset(
    [
        0,
        1,
        7,
        9,
        11,
        13,
        15,
        17,
        19,
        20,
        21,
        22,
        23,
        25,
        37,
        42,
        43,
        53,
        69,
        77,
        79,
        87,
        95,
        101,
        102,
        103,
        104,
        109,
        110,
        111,
        113,
        115,
        117,
        119,
        123,
        135,
        137,
        139,
        143,
        161,
        179,
        389,
        427,
        465,
        512,
        513,
        514,
        515,
        526,
        530,
        531,
        532,
        540,
        548,
        554,
        556,
        563,
        587,
        601,
        636,
        989,
        990,
        993,
        995,
        1719,
        1720,
        1723,
        2049,
        3659,
        4045,
        4190,
        5060,
        5061,
        6000,
        6566,
        6665,
        6666,
        6667,
        6668,
        6669,
        6679,
        6697,
        10080,
        6379,
        11211,
    ]
)
# fmt: on

# IANA's special-purpose registry, less the private ranges above.
_NEVER_4 = [
    IPv4Network(n)
    for n in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",  # Azure's metadata and agent, on a public address
        "169.254.0.0/16",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
_PRIVATE_4 = [net for net in PRIVATE if isinstance(net, IPv4Network)]
# Where clouds serve the credentials of a machine, inside of private ranges.
_METADATA: list[Network] = [
    IPv4Network("100.100.100.200/32"),  # Alibaba Cloud
    IPv6Network("fd00:ec2::/32"),  # Amazon EC2, ECS and EKS
    IPv6Network("fd20:ce::/32"),  # Google Compute Engine
    IPv6Network("fd00:c1::/32"),  # Oracle Cloud
    IPv6Network("fd00:42::/32"),  # Scaleway
]
# Some clouds put their IPv4 address into the last 32 bits of a private IPv6 address.
_METADATA_TAILS = frozenset(int(IPv4Address(text)) for text in ("169.254.169.254", "100.100.100.200"))
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})  # bits 64 to 95; the last 32 are an IPv4 address
_GLOBAL_6 = IPv6Network("2000::/3")
_NEVER_6 = [IPv6Network(n) for n in ("2001::/23", "2001:db8::/32", "3fff::/20")]
_LOOPBACK_6 = IPv6Address("::1")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
# Names of private networks, and those that no public name server knows.
_NAMES_INSIDE = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".arpa", ".onion")
_NAME = re.compile(r"[^.]{1,63}(?:\.[^.]{1,63})*")  # valid in DNS; URLs allow more


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port of a URL, as the guard has parsed it and as the client connects to it."""

    key: str  # the start of the URL: https://host:port
    secure: bool
    host: str  # to resolve, and to check certificates against; IPv6 without brackets
    port: int
    authority: str  # the Host header


class Guard(msgspec.Struct, frozen=True):
    ranges: tuple[Network, ...] = ()  # loopback and private addresses that are allowed

    def origin(self, url: str) -> Origin | Failure:
        """Return the origin of `url`, or a failure if its scheme, port, user info or address is forbidden."""
        try:
            parsed = ada_url.URL(url)
        except ValueError:
            return refused("not a valid URL")
        scheme = parsed.protocol[:-1]
        if scheme not in DEFAULT_PORTS:
            return refused(f"scheme {scheme[:32]!r} is not supported")
        if parsed.username or parsed.password:
            return refused("user info in the URL")
        port = int(parsed.port) if parsed.port else DEFAULT_PORTS[scheme]
        if port in BAD_PORTS:
            return refused(f"port {port} is not allowed")
        host = parsed.hostname.removeprefix("[").removesuffix("]").removesuffix(".")
        if is_ip_literal(host):
            if failure := self.check([host]):
                return failure
        elif len(host) > 253 or _NAME.fullmatch(host) is None:
            return refused("the host name is malformed")
        return Origin(f"{scheme}://{parsed.host}", scheme == "https", host, port, parsed.host)

    def check(self, addresses: Iterable[str]) -> Failure | None:
        """Return a failure if any of the addresses is forbidden."""
        for address in addresses:
            if not self.allows(address):
                return refused(f"address {address} is not allowed")
        return None

    def allows(self, address: str) -> bool:
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        if any(ip in net for net in _METADATA):
            return False
        if isinstance(ip, IPv4Address):
            return _is_global_4(ip) or any(ip in net for net in self.ranges)
        if ip.scope_id is not None:
            return False
        if hidden := _hidden(ip):
            return all(_is_global_4(inner) for inner in hidden)
        if (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP and not _is_global_4(_last(ip)):
            return False
        if any(ip in net for net in self.ranges):
            return int(_last(ip)) not in _METADATA_TAILS
        return ip in _GLOBAL_6 and not any(ip in net for net in _NEVER_6)


def is_ip_literal(host: str) -> bool:
    """Return whether a canonical host is an IP address. A last label of digits means IPv4."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def check_name_for_exit(host: str) -> Failure | None:
    """Return a failure for a host that means our side, or nothing: no exit outside is asked for it."""
    if is_ip_literal(host):
        return Guard().check([host])
    if "." not in host or f".{host}".endswith(_NAMES_INSIDE):
        return refused(f"the name {host} means nothing outside of our network")
    return None


def refused(reason: str) -> Failure:
    return Failure(FailureClass.REFUSED, reason)


def _is_global_4(ip: IPv4Address) -> bool:
    return not any(ip in net for net in _NEVER_4) and not any(ip in net for net in _PRIVATE_4)


def _last(ip: IPv6Address) -> IPv4Address:
    """Return the last 32 bits as an IPv4 address."""
    return IPv4Address(int(ip) & 0xFFFFFFFF)


def _hidden(ip: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses embedded in a mapped, compatible, NAT64, 6to4 or Teredo address."""
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    if ip == _LOOPBACK_6:
        return []  # not the compatible form of 0.0.0.1
    if ip in _NAT64 or ip in _COMPATIBLE:
        return [_last(ip)]
    if ip.sixtofour is not None:
        return [ip.sixtofour]
    return list(ip.teredo or ())
