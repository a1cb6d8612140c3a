"""Challenge pages, told from pages by three signs together: status, a header, and a mark in the body.

One sign alone proves nothing: sites behind these services carry their headers on every page, forms embed
captchas, and articles write about them. Two services state a challenge in a header of its own; there, status
and header are enough.
"""

from dataclasses import dataclass

from shoal.model.page import Response

LOOKED_AT = 64 * 1024  # bytes of body; challenge pages are short


@dataclass(frozen=True, slots=True)
class Challenge:
    service: str
    statuses: frozenset[int]
    header: str  # a name that only this service sends
    value: str = ""  # a part of that header's value
    marks: tuple[bytes, ...] = ()  # any of them in the body; none listed: the header is proof enough


_BLOCKING = frozenset({403, 429, 503})

CHALLENGES = (
    Challenge("Cloudflare", _BLOCKING, "cf-mitigated", "challenge"),
    Challenge("Cloudflare", _BLOCKING, "server", "cloudflare", (b"/cdn-cgi/challenge-platform/",)),
    Challenge("AWS WAF", frozenset({202, 403, 405}), "x-amzn-waf-action"),
    Challenge("DataDome", _BLOCKING, "x-datadome", "", (b"captcha-delivery.com",)),
    Challenge("DataDome", _BLOCKING, "set-cookie", "datadome=", (b"captcha-delivery.com",)),
    Challenge("HUMAN", _BLOCKING, "set-cookie", "_px", (b"px-captcha", b"_pxAppId")),
    Challenge("Imperva", frozenset({200, 403, 503}), "x-iinfo", "", (b"_Incapsula_Resource",)),
    Challenge("Kasada", frozenset({403, 429}), "x-kpsdk-ct", "", (b"KPSDK", b"/ips.js")),
    Challenge("Akamai", frozenset({403, 428, 429}), "server", "akamai", (b"sec-if-cpt-container",)),
    Challenge("Anubis", frozenset({200, 401, 403}), "set-cookie", "anubis", (b"anubis_challenge",)),
)
_HEADERS = frozenset(challenge.header for challenge in CHALLENGES)
_STATUSES = frozenset(status for challenge in CHALLENGES for status in challenge.statuses)
# An Incapsula resource is also embedded in ordinary pages of its customers, which are never this short.
_SHORT = 8 * 1024


def challenged_by(response: Response) -> str | None:
    """Name the service whose challenge this is; None: it is not one."""
    if response.status not in _STATUSES or (response.status == 200 and len(response.body) > _SHORT):
        return None
    signs = [(name, value.lower()) for name, value in response.headers if name in _HEADERS]
    if not signs:
        return None
    body = response.body[:LOOKED_AT]
    for challenge in CHALLENGES:
        if (
            response.status in challenge.statuses
            and any(name == challenge.header and challenge.value in value for name, value in signs)
            and (not challenge.marks or any(mark in body for mark in challenge.marks))
        ):
            return challenge.service
    return None
