"""URLs: one parser (WHATWG, by ada) for checking, joining, fingerprints and connecting.

A page has about thirty links and most of them are plain: `/a/b.html`, `next.html`, `?page=2`. For those the
standard's result is a concatenation, which takes a tenth of the time of the parser. A link is plain if it
consists of characters that the parser would not change and has no dot segments; all others go through ada.
`tests/unit/model/test_url.py` compares the two.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b, sha256
from struct import Struct

import ada_url
from publicsuffixlist import PublicSuffixList

from shoal.model.errors import Misconfigured, Rejected

_PATH = r"[A-Za-z0-9_~!$&()*+,;=:@/.-]*"
_QUERY = r"(?:\?[A-Za-z0-9_~!$&()*+,;=:@/.%?-]*)?"
_plain = re.compile(rf"{_PATH}{_QUERY}(?:#[!-~]*)?").fullmatch

# Hosts that the parser would not change: lower-case names without punycode whose last label cannot be a
# number, and dotted IPv4. Default ports are left to the parser, which removes them.
_NAME = r"(?:(?!xn--)[a-z0-9-]+\.)*[a-z]+"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PORT = r"(?::(?!80/|443/)(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}))?"
_absolute = re.compile(rf"https?://(?:{_NAME}|(?:{_OCTET}\.){{3}}{_OCTET}){_PORT}/{_PATH}{_QUERY}").fullmatch

# Query parameters that track where a visitor came from and never select content.
_TRACKING = frozenset(
    {
        *("gclid", "gclsrc", "gbraid", "wbraid", "dclid", "gad_source", "srsltid", "_ga", "_gl"),
        *("fbclid", "igshid", "msclkid", "ttclid", "twclid", "yclid", "li_fat_id", "rb_clickid", "wickedid"),
        *(
            "mc_cid",
            "mc_eid",
            "mkt_tok",
            "_hsenc",
            "_hsmi",
            "oly_anon_id",
            "oly_enc_id",
            "vero_conv",
            "vero_id",
        ),
    }
)

_first_64_bits = Struct(">Q").unpack_from
_dotted_host = re.compile(r"(https?://[^/?]*[^/?.:])\.+(?=[:/?]|$)").match


def canonical(url: str) -> str:
    """Return the form in which a URL is stored and fetched: WHATWG-serialised, no fragment, no user info.

    A host name loses the dots at its end: `example.com.` is the same host as `example.com`.

    Raises `Rejected` if it is not a URL. Any scheme is accepted: the scope and the connect guard check it.
    """
    if _absolute(url) and "/." not in url:
        return url
    try:
        return _bare(ada_url.normalize_url(url))
    except ValueError:
        raise Rejected(f"not a valid URL: {url[:200]!r}") from None


def join(base: str, href: str) -> str | None:
    """Return the canonical URL of a link found on the page `base`; None if it is not a valid link."""
    return _resolver(base)(href)


def resolver(base: str) -> Callable[[str], str | None]:
    """Return a function that joins links to `base`; what is the same for a whole page is computed once."""
    try:
        base = canonical(base)
    except Rejected:
        return lambda href: None
    if not base.startswith(("http://", "https://")):
        return lambda href: _join(base, href)

    page = base.partition("?")[0]
    root = page[: page.index("/", 8) + 1]
    origin = root[:-1]
    folder = page[: page.rindex("/") + 1]

    def resolve(href: str) -> str | None:
        first = href[:1]
        below, rest = folder, href
        if first == ".":
            start = 2 if href.startswith("./") else 0
            while href.startswith("../", start):
                start += 3
                below = below[: below.rindex("/", 0, -1) + 1] if below != root else root
            rest = href[start:]
        if not _plain(rest) or "/." in rest or rest[:1] == ".":
            return _join(base, href)
        if "#" in rest:
            rest = rest[: rest.index("#")]
        if first == ".":
            return below + rest
        if first == "/":
            return origin + rest if rest[1:2] != "/" else _join(base, href)
        if ":" in rest:
            return rest if rest.startswith(root) or _absolute(rest) else _join(base, href)
        if first == "?":
            return page + rest
        return folder + rest if rest else base

    return resolve


_resolver = lru_cache(maxsize=16)(resolver)


def fragment_of(base: str, href: str) -> str:
    """Return the fragment of a link with its `#`; empty if it has none."""
    try:
        return str(ada_url.URL(href, base).hash)
    except ValueError:
        return ""


def _join(base: str, href: str) -> str | None:
    try:
        return _bare(ada_url.join_url(base, href))
    except ValueError:
        return None


def _bare(url: str) -> str:
    """Return a serialised URL without fragment, user info and dots at the end of its host name."""
    if "#" in url:
        url = url[: url.index("#")]
    if "@" in url:
        scheme, _, rest = url.partition(":")
        if rest.startswith("//"):
            authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0]
            url = f"{scheme}://{rest[2 + authority.rfind('@') + 1 :]}"
    return without_final_dots(url)


def has_credentials(url: str) -> bool:
    """Return whether a URL holds a user name or a password; `canonical` would drop them."""
    if "@" not in url:
        return False
    _, scheme, rest = url.partition("://")
    return bool(scheme) and "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]


CREDENTIALS = (
    "it holds a user name or a password, which would be stored with the URL: leave them out, and set the"
    ' header instead, in shoal.toml: [hosts."HOST"] headers = { Authorization = "Basic ..." }'
)
"""Why a URL with credentials is refused."""


def without_final_dots(url: str) -> str:
    """Return a URL with no dots at the end of its host name."""
    dotted = _dotted_host(url)
    return url if dotted is None else dotted[1] + url[dotted.end() :]


def fingerprint_of(method: str, url: str, body: bytes = b"", key: bytes = b"", *, unique: str = "") -> int:
    """Return the 63-bit fingerprint of a request; `url` must be canonical.

    `key` is the crawl's own, so that a site cannot choose URLs by their fingerprints. Crawls that
    earlier versions began have none.

    The order of query parameters and tracking parameters are ignored. The URL that is fetched stays as it was
    found. `unique` tells requests apart that are equal otherwise.
    """
    # A canonical URL has no space, so that no other request can have the same bytes.
    own = f" {sha256(unique.encode('utf-8', 'surrogatepass')).hexdigest()}" if unique else ""
    identified = f"{method} {identity(url)}{own}\n".encode() + body
    if key:
        return int(_first_64_bits(blake2b(identified, digest_size=8, key=key).digest())[0]) >> 1
    return int(_first_64_bits(sha256(identified).digest())[0]) >> 1


def identity(url: str) -> str:
    """Return the part of a canonical URL that identifies the page: URLs with the same one are equal."""
    if "?" not in url:
        return url
    address, _, query = url.partition("?")
    if "&" not in query:
        return url if query and not _is_tracking(query) else address
    # Sorted by name only: the order of values of one name may matter.
    kept = sorted((p for p in query.split("&") if p and not _is_tracking(p)), key=_name)
    return f"{address}?{'&'.join(kept)}" if kept else address


def _name(parameter: str) -> str:
    return parameter.partition("=")[0]


def _is_tracking(parameter: str) -> bool:
    return parameter.startswith("utm_") or _name(parameter) in _TRACKING


def origin_of(url: str) -> str:
    """Return scheme, host and port of a canonical URL; an empty string if it has no host."""
    host = host_key(url)
    return f"{url.partition(':')[0]}://{host}" if host else ""


def host_key(url: str) -> str:
    """Return the politeness key of a canonical URL: the host, and the port if it is not the default.

    Returns an empty string for a URL without a host, such as `mailto:`.
    """
    parts = url.split("/", 3)
    if len(parts) > 2 and not parts[1] and parts[0].endswith(":"):
        return parts[2].partition("?")[0]
    return ""


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # takes 50 ms: created when the first site is computed


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return the registrable domain of a host key; the host itself for addresses and public suffixes.

    A wildcard in the DNS gives a site any number of hosts: what is counted per site cannot be evaded by them.
    """
    name = host if host.endswith("]") else host.partition(":")[0]
    if not name or name.startswith("[") or name[-1].isdigit():
        return host
    return _suffixes().privatesuffix(name) or host


def host_name(text: str) -> str:
    """Return the host that a name, a name with a port, or a URL means."""
    try:
        name = host_key(canonical(text if "://" in text else f"http://{text}/"))
    except Rejected:
        name = ""
    if not name:
        raise Misconfigured(f"{text!r} is not a host name such as shop.example or 127.0.0.1:8000")
    return name
