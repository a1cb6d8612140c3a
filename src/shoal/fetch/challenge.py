"""Find blocks: responses that are a challenge or a refusal instead of the page, by weighted evidence.

Status, headers and parts of the body each add points for a vendor (`fetch/block_signs.py`); a block has at
least `ENOUGH` of one vendor. One sign alone is never enough, except a header that announces a challenge:
sites behind these services send their headers with every page, forms embed captchas, and articles write
about them. A page with many links or a password field is a page of a site, whatever it embeds.

Challenges are short, so the bodies of successful responses are searched only up to `MAX_PAGE_BYTES`.
"""

import msgspec

from shoal.fetch.block_signs import (
    ANCHORS,
    BODIES,
    ENOUGH,
    GENERIC,
    HEADERS,
    LOCATIONS,
    PHRASE_POINTS,
    PHRASES,
    WIDGET_POINTS,
    WIDGETS,
    Sign,
)
from shoal.model.page import Response

BODY_BYTES = 64 * 1024  # of a refused response that are searched
MAX_PAGE_BYTES = 12 * 1024  # of a successful response; challenges with such a status are shorter
SHORTEST_BODY = 64  # a shorter one may be blank
BARE_BYTES, BARE_LINKS = 6 * 1024, 3  # a page with no more than this is hardly one
MANY_LINKS = 8

STATUS_POINTS = {401: 20, 403: 30, 405: 30, 406: 20, 428: 30, 429: 30, 503: 30, 202: 20}
BARE_POINTS, EMPTY_POINTS, LOGIN_POINTS = 30, 50, -60
_REDIRECTS = frozenset({301, 302, 303, 307})


class BlockVerdict(msgspec.Struct, frozen=True):
    """A response that is not the page."""

    vendor: str
    evidence: tuple[str, ...]  # what it was recognised by

    def __str__(self) -> str:
        return f"a block by {self.vendor}: {', '.join(self.evidence)}"


def find_block(response: Response, *, has_body: bool = True) -> BlockVerdict | None:
    """Return the block that a response is; None: it is something else. `has_body`: false for HEAD."""
    status = response.status
    if status in _REDIRECTS and response.header("location"):
        return _redirected(response.header("location"))
    if not (200 <= status < 300 or status in STATUS_POINTS or status in _REDIRECTS):
        return None
    signs = _header_signs(response.headers)
    body = response.body
    refused = status >= 400
    if len(body) < SHORTEST_BODY and not body.strip():
        if signs and has_body and status not in (204, 205):
            return _empty(status, signs)
        return None
    if not refused and (len(body) > MAX_PAGE_BYTES or _has_many_links(body)):
        return _verdict(status, signs, []) if signs else None
    if len(body) > BODY_BYTES:
        body = body[:BODY_BYTES]
    if not any(anchor in body for anchor in ANCHORS):
        return _verdict(status, signs, []) if signs else None
    found = [sign for sign, mark in BODIES if mark in body]
    return _verdict(status, signs, found, body)


def _has_many_links(body: bytes) -> bool:
    """Return whether this is a page of a site; stops early, as most pages have many links near their top."""
    return len(body.split(b"<a ", MANY_LINKS)) > MANY_LINKS  # one call for all of them


def _header_signs(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, Sign]]:
    found: list[tuple[str, Sign]] = []
    for name, value in headers:
        if (rules := HEADERS.get(name)) is not None:
            low = value.lower()
            found += [(name, sign) for sign in rules if sign.mark in low]
    return found


def _redirected(location: str) -> BlockVerdict | None:
    for sign in LOCATIONS:
        if sign.mark in location:
            return BlockVerdict(sign.vendor, (f"a redirect to {sign.mark}",))
    return None


def _empty(status: int, signs: list[tuple[str, Sign]]) -> BlockVerdict | None:
    """Judge a response without a body: some vendors send their challenge in headers alone."""
    return _decide({}, {}, status, signs, [("an empty body", EMPTY_POINTS)])


def _verdict(
    status: int, signs: list[tuple[str, Sign]], found: list[Sign], body: bytes = b""
) -> BlockVerdict | None:
    points: dict[str, int] = {}
    evidence: dict[str, list[str]] = {}
    for sign in found:
        points[sign.vendor] = points.get(sign.vendor, 0) + sign.points
        evidence.setdefault(sign.vendor, []).append(repr(sign.mark))
    shape: list[tuple[str, int]] = []
    if body:
        low = body.lower()
        if widget := next((widget for widget in WIDGETS if widget in low), None):
            phrase = next((phrase for phrase in PHRASES if phrase in low), None)
            points[GENERIC] = WIDGET_POINTS + (PHRASE_POINTS if phrase else 0)
            evidence[GENERIC] = [repr(one.decode()) for one in (widget, phrase) if one]
        links = low.count(b"<a ")
        if len(body) <= BARE_BYTES and links <= BARE_LINKS:
            shape.append(("hardly any content", BARE_POINTS))
        if b'type="password"' in low or b"type='password'" in low or b"type=password" in low:
            shape.append(("", LOGIN_POINTS))
    return _decide(points, evidence, status, signs, shape)


def _decide(
    points: dict[str, int],
    evidence: dict[str, list[str]],
    status: int,
    signs: list[tuple[str, Sign]],
    shape: list[tuple[str, int]],
) -> BlockVerdict | None:
    for name, sign in signs:
        points[sign.vendor] = points.get(sign.vendor, 0) + sign.points
        value = f" with {sign.mark}" if sign.mark else ""
        evidence.setdefault(sign.vendor, []).append(f"header {name}{value}")
    common = STATUS_POINTS.get(status, 0) + sum(number for _, number in shape)
    announced = {sign.vendor for _, sign in signs if sign.points >= ENOUGH}
    # A vendor with a name goes first: its walls have the usual widgets, too.
    for vendor in sorted(points, key=lambda name: (name == GENERIC, -points[name])):
        if points[vendor] + common >= ENOUGH or vendor in announced:
            remarks = [text for text, _ in shape if text]
            return BlockVerdict(vendor, (f"status {status}", *evidence[vendor], *remarks))
    return None
