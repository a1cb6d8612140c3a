"""Cookies that a user gives to a crawl: by name and value, or in a `cookies.txt`."""

import logging
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from shoal.fetch.cookies import COOKIE_BYTES, Cookie
from shoal.fetch.http.guard import DEFAULT_PORTS
from shoal.model.errors import Misconfigured

log = logging.getLogger(__name__)

_LARGEST_FILE = 4 << 20
_HTTP_ONLY = "#HttpOnly_"  # a comment to old readers, a cookie to others
_FIELDS = 7  # domain, subdomains too, path, secure, expires, name, value


def for_seeds(cookies: Mapping[str, str], seeds: Iterable[str]) -> Iterator[Cookie]:
    """Give cookies by name and value to the hosts of the seeds; over TLS only, if a seed says https."""
    for url in seeds:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        for name, value in cookies.items():
            yield Cookie(name, value, parts.hostname or "", "/", port, secure=parts.scheme == "https")


def from_file(path: str) -> list[Cookie]:
    """Read a `cookies.txt`. A complaint names the line and never shows what is on it."""
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode):
            raise Misconfigured(f"crawl.cookie_file: {path}: not a file")
        if found.st_size > _LARGEST_FILE:
            raise Misconfigured(f"crawl.cookie_file: {path}: larger than any cookie file can be")
        if found.st_mode & stat.S_IROTH:
            # Not refused: secrets that a container is given are often mounted like that.
            log.warning("cookies.readable_by_all", extra={"file": path, "mend_with": f"chmod 600 {path}"})
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise Misconfigured(f"crawl.cookie_file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Misconfigured(f"crawl.cookie_file: {path}: not a text file") from None
    cookies = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.removeprefix(_HTTP_ONLY)
        if line.strip() and not line.startswith("#"):
            cookies.append(_read(line.split("\t"), f"crawl.cookie_file: {path}:{number}"))
    if not cookies:
        raise Misconfigured(f"crawl.cookie_file: {path}: no cookie in it")
    return cookies


def _read(parts: list[str], where: str) -> Cookie:
    if len(parts) != _FIELDS:
        raise Misconfigured(f"{where}: {len(parts)} fields instead of {_FIELDS}, with tabs between")
    domain, below, path, secure, expires, name, value = parts
    if not expires.isdecimal() or not path.startswith("/") or len(name) + len(value) > COOKIE_BYTES:
        raise Misconfigured(f"{where}: not a cookie as browsers and curl write them")
    return Cookie(
        name,
        value,
        domain.removeprefix(".").lower(),
        path,
        DEFAULT_PORTS["https" if secure == "TRUE" else "http"],
        float(expires) or None,  # 0: as long as the crawl
        host_only=below != "TRUE",
        secure=secure == "TRUE",
    )
