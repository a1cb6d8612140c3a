"""The bytes of proxy handshakes, and what the answers mean: HTTP CONNECT, and SOCKS5 with a password. Pure.

An answer is either the exit's fault (`proxy_error`) or says that the exit could not reach the target
(`connect`). Each names its row in the table of `model/exits/faults.py`, which says who is charged.
"""

import re
from base64 import b64encode
from ipaddress import IPv4Address, ip_address

from shoal.fetch.http.message import EncodedRequest
from shoal.model.exits.faults import Fault
from shoal.model.failure import Failure, FailureClass

MAX_ANSWER_BYTES = 16 * 1024
LOGIN_REFUSED = 407
TARGET_REFUSED = 403

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?:[ \r]|$)")
_LOGIN_STATUSES = (401, 407)
_ACCOUNT_STATUSES = (402, 429)
_TARGET_STATUSES = (404, 500, 502, 503, 504)
_SOCKS_REASONS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "expired on the way",
    7: "command not supported",
    8: "address type not supported",
}
_SOCKS_TARGET = (1, 3, 4, 5, 6)


def proxy_error(fault: Fault, reason: str, status: int = 0) -> Failure:
    return Failure(FailureClass.PROXY_ERROR, f"exit: {reason}", status, fault=fault)


def unreached(reason: str, status: int = 0) -> Failure:
    return Failure(FailureClass.CONNECT, f"no connection: {reason}", status, fault=Fault.UNREACHED)


def login_refused(reason: str) -> Failure:
    return proxy_error(Fault.LOGIN, reason, LOGIN_REFUSED)


def authorization(user: str, password: str) -> str:
    """Return the value of Proxy-Authorization; empty without a login."""
    if not user and not password:
        return ""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def connect_request(authority: str, credentials: str) -> bytes:
    """Return a CONNECT request for `host:port`."""
    login = f"Proxy-Authorization: {credentials}\r\n" if credentials else ""
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{login}\r\n".encode("latin-1")


def options_request(credentials: str) -> bytes:
    """Return a request that a proxy answers itself, without connecting to anything."""
    login = f"Proxy-Authorization: {credentials}\r\n" if credentials else ""
    return f"OPTIONS * HTTP/1.1\r\nHost: proxy\r\nMax-Forwards: 0\r\n{login}\r\n".encode("latin-1")


def judge_options(head: bytes) -> Failure | None:
    """Return what an answer to a request about the exit itself means; None: it is one of a proxy."""
    found = _STATUS.match(head)
    if found is None:
        return proxy_error(Fault.NO_PROXY, "its answer is not HTTP")
    if int(found[1]) in _LOGIN_STATUSES:
        return login_refused(f"user name or password refused, status {int(found[1])}")
    return None


def judge_connect(head: bytes) -> Failure | None:
    """Return what the answer to CONNECT means; None: the tunnel is open."""
    found = _STATUS.match(head)
    if found is None:
        return proxy_error(Fault.NO_PROXY, "its answer to CONNECT is not HTTP")
    status = int(found[1])
    if 200 <= status < 300:
        return None
    if status in _LOGIN_STATUSES:
        return login_refused(f"user name or password refused, status {status}")
    if status in _TARGET_STATUSES:
        return unreached(f"the exit answers {status}", status)
    fault = Fault.ACCOUNT if status in _ACCOUNT_STATUSES else Fault.RULES
    return proxy_error(fault, f"CONNECT refused, status {status}", status)


def absolute_form(message: EncodedRequest, origin: str, credentials: str) -> bytes:
    """Return a request for an HTTP proxy: with the whole URL, and the login for the proxy."""
    method, _, rest = message.data.partition(b" ")
    target, _, headers = rest.partition(b"\r\n")
    login = f"Proxy-Authorization: {credentials}\r\n".encode("latin-1") if credentials else b""
    return b"%b %b%b\r\n%b%b" % (method, origin.encode("latin-1"), target, login, headers)


def socks_greeting(*, with_login: bool) -> bytes:
    return b"\x05\x02\x00\x02" if with_login else b"\x05\x01\x00"


def judge_greeting(answer: bytes, *, with_login: bool) -> Failure | bool:
    """Return whether a login has to follow, or why the exit cannot be used."""
    if answer[0] != 5:
        return proxy_error(Fault.NO_PROXY, "its answer is not SOCKS5")
    if answer[1] == 0:
        return False
    if answer[1] == 2 and with_login:
        return True
    return login_refused("it accepts no login that we have")


def socks_login(user: str, password: str) -> bytes:
    name, secret = user.encode(), password.encode()
    return b"\x01%c%b%c%b" % (len(name), name, len(secret), secret)


def judge_login(answer: bytes) -> Failure | None:
    return None if answer[1] == 0 else login_refused("user name or password refused")


def socks_request(host: str, port: int) -> bytes:
    """Return a CONNECT command for an address, or for a name that the exit resolves."""
    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode("ascii")
        place = b"\x03%c%b" % (len(name), name)
    else:
        place = (b"\x01" if isinstance(address, IPv4Address) else b"\x04") + address.packed
    return b"\x05\x01\x00" + place + port.to_bytes(2, "big")


def judge_reply(head: bytes) -> Failure | int:
    """Return how many bytes of a SOCKS reply follow its first five, or why there is no connection."""
    version, code, _, kind, length = head
    if version != 5:
        return proxy_error(Fault.NO_PROXY, "its reply is not SOCKS5")
    reason = _SOCKS_REASONS.get(code, f"reply {code}")
    if code in _SOCKS_TARGET:
        return unreached(f"the exit says {reason}")
    if code:
        return proxy_error(Fault.RULES, reason, TARGET_REFUSED)
    sizes = {1: 4 + 2 - 1, 3: length + 2, 4: 16 + 2 - 1}
    return (
        sizes[kind] if kind in sizes else proxy_error(Fault.NO_PROXY, "its reply has an unknown address type")
    )
