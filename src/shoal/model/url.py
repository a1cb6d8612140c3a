"""URLs: one parser (WHATWG, by ada) for checking, joining, identity and connecting alike."""

import hashlib

import ada_url

from shoal.model.errors import Rejected


def canonical(url: str) -> str:
    """Return the form in which a URL is stored and fetched: WHATWG-serialised, no fragment, no user info."""
    try:
        parsed = ada_url.URL(url)
    except ValueError:
        raise Rejected(f"not a valid URL: {url[:200]!r}") from None
    parsed.hash = ""
    parsed.username = ""
    parsed.password = ""
    return str(parsed.href)


def join(base: str, href: str) -> str | None:
    """Resolve a link found on the page `base` (canonical) to canonical form; None: cannot be one."""
    try:
        return canonical(ada_url.join_url(base, href))
    except (ValueError, Rejected):
        return None


def fingerprint_of(method: str, url: str, body: bytes = b"") -> int:
    """Return the 63-bit identity of a request; `url` must be canonical."""
    digest = hashlib.sha256(f"{method} {url}\n".encode() + body).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def host_key(url: str) -> str:
    """Return the politeness key of a canonical URL: host, and port where it is not the scheme's own."""
    return url.split("/", 3)[2]
