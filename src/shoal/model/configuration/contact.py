"""Whether a crawl must name its operator: site owners ask for a way to reach the operator of a crawler."""

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from shoal.model.settings import CrawlSettings

# Names that are never resolved in the public DNS (RFC 6761, RFC 6762, RFC 8375, and ICANN for `internal`).
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".test")


def contact_missing(urls: Iterable[str], crawl: CrawlSettings) -> bool:
    """Return True if a start URL is public and the settings have neither a contact nor a user agent."""
    if crawl.contact or crawl.user_agent:
        return False
    return any(is_public(urlsplit(url).hostname or "") for url in urls)


def is_public(host: str) -> bool:
    """Return False for loopback and private addresses and for names of private networks. Resolves nothing."""
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_PRIVATE_SUFFIXES)
