"""What a client asks a proxy for: a tunnel, or one request in absolute form. Pure.

Only one request per connection is taken in absolute form. The next one may be for another host, and a
server may ignore that we asked it to close: so the answer says `Connection: close`, whatever the server
said.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error

import msgspec

MAX_HEAD_BYTES = 64 * 1024
# Those of one connection, and what is meant for the proxy.
_DROPPED = frozenset(
    [b"proxy-authorization", b"proxy-connection", b"connection", b"keep-alive", b"te", b"upgrade"]
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):(?P<port>\d{1,5})")


class ProxyRequest(msgspec.Struct, frozen=True):
    token: str  # empty: the client has shown none
    url: str  # of the origin: https://host:port/ for a tunnel
    is_tunnel: bool
    head: bytes = b""  # of the request for the server, in origin form
    body_bytes: int = 0  # that follow


def parse_request(head: bytes) -> ProxyRequest | None:
    """Return what a head asks for; None: it is not a request to a proxy."""
    first, *lines = head.split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
        return None
    fields = [(line.partition(b":")[0].strip().lower(), line) for line in lines if line]
    if any(b":" not in line or line[:1] in b" \t" for _, line in fields):
        return None
    token = next((_token(line) for name, line in fields if name == b"proxy-authorization"), "")
    method, target, _ = (part.decode("latin-1") for part in parts)
    if method == "CONNECT":
        found = _AUTHORITY.fullmatch(target)
        return None if found is None else ProxyRequest(token, f"https://{target.lower()}/", True)
    if not target.lower().startswith("http://"):
        return None
    origin, _, path = target[7:].partition("/")
    if "?" in origin or "#" in origin:
        return None
    lengths = {line.partition(b":")[2].strip() for name, line in fields if name == b"content-length"}
    if len(lengths) > 1 or any(name == b"transfer-encoding" for name, _ in fields):
        return None  # a body whose end cannot be told for sure
    size = lengths.pop() if lengths else b"0"
    if not size.isdigit() or len(size) > 12:
        return None
    kept = b"".join(line + b"\r\n" for name, line in fields if name not in _DROPPED)
    request = f"{method} /{path} HTTP/1.1\r\n".encode("latin-1") + kept + b"Connection: close\r\n\r\n"
    return ProxyRequest(token, f"http://{origin.lower()}/", False, request, int(size))


def closing_head(head: bytes) -> bytes:
    """Return the head of a response, with its empty line, that ends the connection."""
    first, *lines = head.split(b"\r\n")
    kept = [
        line
        for line in lines
        if line.partition(b":")[0].strip().lower() not in (b"connection", b"keep-alive")
    ]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


def is_interim(head: bytes) -> bool:
    return re.match(rb"HTTP/1\.\d 1\d\d", head) is not None


def _token(line: bytes) -> str:
    kind, _, value = line.partition(b":")[2].strip().partition(b" ")
    if kind.lower() != b"basic":
        return ""
    try:
        return b64decode(value.strip(), validate=True).decode().partition(":")[0]
    except (Base64Error, ValueError):
        return ""
