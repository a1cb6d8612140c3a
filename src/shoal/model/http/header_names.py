"""Which request headers may be shown to anyone. One list for sending, for the archive and for logs.

It names what is public, and every other header is taken for a secret: names of headers with credentials are
made up freely (X-Api-Key, X-Shop-Pass, Ocp-Apim-Subscription-Key), those of harmless ones are standardised.
"""

from functools import lru_cache

PUBLIC = frozenset(
    [
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-type",
        "date",
        "dnt",
        "expect",
        "from",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "max-forwards",
        "origin",
        "pragma",
        "priority",
        "range",
        "referer",
        "save-data",
        "te",
        "transfer-encoding",
        "upgrade",
        "upgrade-insecure-requests",
        "user-agent",
        "via",
        "x-requested-with",
    ]
)


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Return whether a request header of this name may carry a credential."""
    name = name.lower()
    return name not in PUBLIC and not name.startswith(("sec-ch-", "sec-fetch-", "sec-gpc"))
