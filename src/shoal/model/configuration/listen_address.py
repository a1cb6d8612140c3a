"""Addresses that a server listens on."""

import ipaddress
from urllib.parse import urlsplit

from shoal.model.errors import Misconfigured


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a listening address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(authority: str) -> str:
    """Return the name in HOST[:PORT], lower-case and without brackets; empty: not a host."""
    try:
        parts = urlsplit(f"//{authority}")
        port = parts.port
    except ValueError:
        return ""
    if parts.netloc != authority or parts.username is not None or (port is not None and port <= 0):
        return ""
    return (parts.hostname or "").rstrip(".")


def is_local_name(name: str) -> bool:
    """Return whether a page of the internet cannot have this name, and lead it to a server of ours.

    Addresses, names of one label and names below these ones are given by the local network.
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(name) and ("." not in name or name.endswith((".local", ".internal", ".localhost")))
    return True


def address_of(address: str, *, flag: str = "--metrics") -> tuple[str, int]:
    """Split HOST:PORT; a port alone is one of this machine, which no other can reach."""
    if address.isdecimal():
        address = f"127.0.0.1:{address}"
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise Misconfigured(f"{flag} {address!r}: give a port such as 9464, or an address and a port")
    return host.strip("[]"), int(port)
