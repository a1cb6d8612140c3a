"""The headers of a request, and which of them an origin may see. Pure.

A header that may carry a credential (`model/http/header_names.py`) goes to the origins that it was given for,
and to no other: not over a redirect, not to a host that a redirect or a link brought into scope, not to the
same host by another scheme or port, not to robots.txt. An origin is scheme, host and port.

- Those of the crawl were given for `home`, the origins of its seeds.
- Those of a host were given for that host over https; over http only if a seed starts there over http.
- Those of a single request are removed when it is redirected to another origin (`interpret.py`).

Cookies follow the rules of the jar.
"""

from collections.abc import Collection, Mapping

from shoal.fetch.http.decode import ACCEPT_ENCODING
from shoal.fetch.http.message import Headers
from shoal.model.http.header_names import is_secret
from shoal.model.request import Request
from shoal.model.url import host_key

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en-US,en;q=0.9,*;q=0.5"


class CrawlHeaders:
    """The headers of one crawl. `home` is read at every request: its owner may add origins later."""

    def __init__(
        self,
        user_agent: str,
        headers: Mapping[str, str],
        *,
        home: Collection[str] = (),
        hosts: Mapping[str, Mapping[str, str]] = {},
    ) -> None:
        defaults = {
            "User-Agent": user_agent,
            "Accept": ACCEPT,
            "Accept-Language": ACCEPT_LANGUAGE,
            "Accept-Encoding": ACCEPT_ENCODING,
        }
        self._all = _overlay(tuple(defaults.items()), headers)
        public = tuple(pair for pair in self._all if not is_secret(pair[0]))
        self.public = self._all if public == self._all else public
        self._home = home
        self._hosts = {host: own for host, own in hosts.items() if own}

    def of(self, request: Request, *, cookie: str = "", etag: str = "", modified: str = "") -> Headers:
        """Return the headers of `request`. `cookie` is from the jar; `etag` and `modified` are validators."""
        base = self._all
        if base is not self.public and _origin(request.url) not in self._home:
            base = self.public
        if self._hosts and (own := self._hosts.get(host_key(request.url))):
            base = _overlay(base, self._of_host(own, request.url))
        if not (request.headers or cookie or etag or modified):
            return base
        extra = {"If-None-Match": etag, "If-Modified-Since": modified, "Cookie": cookie}
        ours = {name: value for name, value in extra.items() if value}
        own = request.headers
        if cookie and own:
            own = {name: _join_cookies(value, cookie, name) for name, value in own.items()}
        return _overlay(_overlay(base, ours), own)

    def _of_host(self, own: Mapping[str, str], url: str) -> Mapping[str, str]:
        if url.startswith("https:") or _origin(url) in self._home:
            return own
        return {name: value for name, value in own.items() if not is_secret(name)}


def needs_home(headers: Mapping[str, str], hosts: Collection[Mapping[str, str]]) -> bool:
    """Return whether any header goes to the origins of the seeds only, so that they have to be known."""
    return any(is_secret(name) for given in (headers, *hosts) for name in given)


def is_conditional(request: Request) -> bool:
    """Return whether the request's own headers make it conditional."""
    return any(name.lower() in ("if-none-match", "if-modified-since") for name in request.headers)


def _join_cookies(own: str, jar: str, name: str) -> str:
    """Return the cookies of a request and, behind them, those of the jar with other names."""
    if name.lower() != "cookie":
        return own
    names = {pair.partition("=")[0].strip() for pair in own.split(";")}
    others = [pair for pair in jar.split("; ") if pair.partition("=")[0] not in names]
    return "; ".join([own, *others])


def _overlay(base: Headers, extra: Mapping[str, str]) -> Headers:
    """Return `base` with the headers of `extra` added or replaced, by name in any case."""
    if not extra:
        return base
    taken = {name.lower() for name in extra}
    return (*(pair for pair in base if pair[0].lower() not in taken), *extra.items())


def _origin(url: str) -> str:
    return url[: url.index("/", 8)]
