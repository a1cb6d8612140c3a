"""Start URLs: what a user or a program may give a crawl to begin with."""

from shoal.model.errors import Rejected
from shoal.model.request import MAX_NAME_BYTES
from shoal.model.url import CREDENTIALS, canonical, has_credentials, host_key

MAX_LINE_CHARS = 64 * 1024  # a longer line is not a URL and is not kept in memory


def start_url(text: str) -> str:
    """Return a start URL in canonical form; raise `Rejected` if it is not one."""
    if len(text) > MAX_LINE_CHARS:
        raise Rejected(f"longer than {MAX_LINE_CHARS:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Rejected("not UTF-8 text") from None
    url = canonical(text)
    if len(host_key(url)) > MAX_NAME_BYTES:
        raise Rejected(f"the host has more than {MAX_NAME_BYTES} bytes: {url[:80]!r}")
    if has_credentials(text):
        raise Rejected(f"start URL of {host_key(url)}: {CREDENTIALS}")
    if not url.startswith(("http://", "https://")):
        raise Rejected(f"only http and https can be crawled: {text[:200]!r}")
    return url
