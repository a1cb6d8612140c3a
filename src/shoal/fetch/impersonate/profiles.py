"""The browsers that can be impersonated, and how a request is made to look like theirs.

A profile is a whole: ciphers, extensions, HTTP/2 settings, User-Agent and the headers that name the browser
belong together, and a crawl's own User-Agent never goes with one. `plain` has HTTP/2 and our own headers, and
passes for no browser.
"""

from collections.abc import Mapping

import msgspec

from shoal.fetch.http.message import Headers

UNCHANGED = "plain"
DEFAULT_PROFILE = "chrome"


class BrowserProfile(msgspec.Struct, frozen=True):
    name: str
    emulation: str  # as wreq calls it; empty: none
    order: tuple[str, ...] = ()  # of headers over HTTP/1.1, as the browser spells them


_CHROME_ORDER = (
    "Host", "Connection", "Cache-Control", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform",
    "Upgrade-Insecure-Requests", "User-Agent", "Accept", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-User",
    "Sec-Fetch-Dest", "Referer", "Accept-Encoding", "Accept-Language", "Cookie", "If-None-Match",
    "If-Modified-Since",
)  # fmt: skip
_FIREFOX_ORDER = (
    "Host", "User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Referer", "Connection", "Cookie",
    "Upgrade-Insecure-Requests", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User",
    "If-Modified-Since", "If-None-Match", "Priority",
)  # fmt: skip
_SAFARI_ORDER = (
    "Host", "Accept", "Cookie", "Sec-Fetch-Site", "Connection", "Sec-Fetch-Mode", "User-Agent",
    "Accept-Language", "Referer", "Sec-Fetch-Dest", "Accept-Encoding",
)  # fmt: skip

PROFILES: Mapping[str, BrowserProfile] = {
    profile.name: profile
    for profile in (
        BrowserProfile("chrome", "Chrome154", _CHROME_ORDER),
        BrowserProfile("edge", "Edge148", _CHROME_ORDER),
        BrowserProfile("firefox", "Firefox152", _FIREFOX_ORDER),
        BrowserProfile("safari", "Safari26_4", _SAFARI_ORDER),
        BrowserProfile(UNCHANGED, ""),
    )
}

# Headers that a profile brings: sent by us, they would contradict it.
_OF_THE_PROFILE = frozenset({"user-agent", "accept", "accept-encoding", "accept-language"})


def headers_for(profile: BrowserProfile, headers: Headers) -> list[tuple[str, str]]:
    """Return the headers to add to those of a profile."""
    if not profile.emulation:
        return list(headers)
    own = [pair for pair in headers if pair[0].lower() not in _OF_THE_PROFILE]
    return [("Connection", "keep-alive"), *own]
