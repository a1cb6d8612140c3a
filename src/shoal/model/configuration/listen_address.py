"""Addresses that a server listens on."""

import ipaddress

from shoal.model.errors import Misconfigured


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a listening address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(address: str, *, flag: str = "--metrics") -> tuple[str, int]:
    """Split HOST:PORT; a port alone is one of this machine, which no other can reach."""
    if address.isdecimal():
        address = f"127.0.0.1:{address}"
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise Misconfigured(f"{flag} {address!r}: give a port such as 9464, or an address and a port")
    return host.strip("[]"), int(port)
