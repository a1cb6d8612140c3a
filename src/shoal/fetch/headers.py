"""The headers of a request, and which of them another origin may see. Pure.

Credentials do not leak to other origins. The crawl's Authorization and Cookie headers go to the origins in
`home`; if none are named, to every origin that was not reached by a redirect from another one. Headers for a
host go to that host only. The headers of a single request are removed when it is redirected to another origin
(`interpret.py`). Cookies follow the rules of the jar.
"""

from collections.abc import Collection, Mapping

from shoal.fetch.http.decode import ACCEPT_ENCODING
from shoal.fetch.http.message import Headers
from shoal.model.request import Request
from shoal.model.url import host_key

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en-US,en;q=0.9,*;q=0.5"

_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})


class CrawlHeaders:
    """The headers of one crawl."""

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
        public = tuple(pair for pair in self._all if pair[0].lower() not in _CREDENTIALS)
        self.public = self._all if public == self._all else public
        self._home = frozenset(home)
        self._hosts = {host: own for host, own in hosts.items() if own}

    def of(self, request: Request, *, cookie: str = "", etag: str = "", modified: str = "") -> Headers:
        """Return the headers of `request`. `cookie` is from the jar; `etag` and `modified` are validators."""
        base = self._all if self._all is self.public or self._is_trusted(request) else self.public
        if self._hosts and (own := self._hosts.get(host_key(request.url))):
            base = _overlay(base, own)
        if not (request.headers or cookie or etag or modified):
            return base
        extra = {"If-None-Match": etag, "If-Modified-Since": modified, "Cookie": cookie}
        ours = {name: value for name, value in extra.items() if value}
        return _overlay(_overlay(base, ours), request.headers)

    def _is_trusted(self, request: Request) -> bool:
        origin = _origin(request.url)
        if self._home:
            return origin in self._home
        return all(_origin(url) == origin for url in request.chain)


def is_conditional(request: Request) -> bool:
    """Return whether the request's own headers make it conditional."""
    return any(name.lower() in ("if-none-match", "if-modified-since") for name in request.headers)


def _overlay(base: Headers, extra: Mapping[str, str]) -> Headers:
    """Return `base` with the headers of `extra` added or replaced, by name in any case."""
    taken = {name.lower() for name in extra}
    return (*(pair for pair in base if pair[0].lower() not in taken), *extra.items())


def _origin(url: str) -> str:
    return url[: url.index("/", 8)]
