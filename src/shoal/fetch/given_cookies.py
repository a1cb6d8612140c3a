"""Cookies from the settings of a crawl: by name and value, or in a `cookies.txt` file."""

import logging
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from shoal.fetch.cookies import ANY_PORT, MAX_COOKIE_BYTES, Cookie
from shoal.fetch.http.guard import DEFAULT_PORTS
from shoal.model.errors import Misconfigured

log = logging.getLogger(__name__)

_MAX_FILE_BYTES = 4 << 20
_HTTP_ONLY = "#HttpOnly_"  # old readers take such a line as a comment; it is a cookie
_FIELDS = 7  # domain, subdomains too, path, secure, expires, name, value


def cookies_for_seeds(cookies: Mapping[str, str], seeds: Iterable[str]) -> Iterator[Cookie]:
    """Yield the cookies for the origin of each seed; Secure ones if the seed's scheme is https."""
    for url in seeds:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        for name, value in cookies.items():
            yield Cookie(name, value, parts.hostname or "", "/", port, secure=parts.scheme == "https")


def read_cookie_file(path: str) -> list[Cookie]:
    """Return the cookies in a `cookies.txt` file. Errors name the line and never show its content."""
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode):
            raise Misconfigured(f"crawl.cookie_file: {path}: not a file")
        if found.st_size > _MAX_FILE_BYTES:
            raise Misconfigured(f"crawl.cookie_file: {path}: larger than {_MAX_FILE_BYTES >> 20} MiB")
        if found.st_mode & stat.S_IROTH:
            # Only a warning: secrets of a container are often mounted world-readable.
            log.warning("cookies.world_readable", extra={"file": path, "fix": f"chmod 600 {path}"})
        text = Path(path).read_text("utf-8-sig")
    except OSError as error:
        # Without its name: by mistake it may be a cookie.
        raise Misconfigured(f"crawl.cookie_file: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Misconfigured(f"crawl.cookie_file: {path}: not a text file") from None
    except ValueError:
        raise Misconfigured("crawl.cookie_file: not the name of a file") from None
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
        raise Misconfigured(f"{where}: {len(parts)} tab-separated fields instead of {_FIELDS}")
    domain, subdomains, path, secure, expires, name, value = parts
    if not expires.isdecimal() or not path.startswith("/") or len(name) + len(value) > MAX_COOKIE_BYTES:
        raise Misconfigured(f"{where}: not a cookie as browsers and curl write them")
    return Cookie(
        name,
        value,
        domain.removeprefix(".").lower(),
        path,
        DEFAULT_PORTS["https"] if secure == "TRUE" else ANY_PORT,
        float(expires) or None,  # 0: a session cookie, valid for the whole crawl
        host_only=subdomains != "TRUE",
        secure=secure == "TRUE",
    )
