"""Detect challenge pages by three signs together: status, a header, and a marker in the body.

One sign alone proves nothing: sites behind these services send their headers with every page, forms embed
captchas, and articles write about them. Two services announce a challenge in a dedicated header; for those,
status and header are enough.
"""

from dataclasses import dataclass

from shoal.model.page import Response

BODY_BYTES = 64 * 1024  # searched for markers; challenge pages are short


@dataclass(frozen=True, slots=True)
class ChallengeRule:
    service: str
    statuses: frozenset[int]
    header: str  # a name that only this service sends
    value: str = ""  # a part of that header's value
    marks: tuple[bytes, ...] = ()  # one of them must be in the body; empty: the header is enough


_BLOCKING = frozenset({403, 429, 503})

CHALLENGES = (
    ChallengeRule("Cloudflare", _BLOCKING, "cf-mitigated", "challenge"),
    ChallengeRule("Cloudflare", _BLOCKING, "server", "cloudflare", (b"/cdn-cgi/challenge-platform/",)),
    ChallengeRule("AWS WAF", frozenset({202, 403, 405}), "x-amzn-waf-action"),
    ChallengeRule("DataDome", _BLOCKING, "x-datadome", "", (b"captcha-delivery.com",)),
    ChallengeRule("DataDome", _BLOCKING, "set-cookie", "datadome=", (b"captcha-delivery.com",)),
    ChallengeRule("HUMAN", _BLOCKING, "set-cookie", "_px", (b"px-captcha", b"_pxAppId")),
    ChallengeRule("Imperva", frozenset({200, 403, 503}), "x-iinfo", "", (b"_Incapsula_Resource",)),
    ChallengeRule("Kasada", frozenset({403, 429}), "x-kpsdk-ct", "", (b"KPSDK", b"/ips.js")),
    ChallengeRule("Akamai", frozenset({403, 428, 429}), "server", "akamai", (b"sec-if-cpt-container",)),
    ChallengeRule("Anubis", frozenset({200, 401, 403}), "set-cookie", "anubis", (b"anubis_challenge",)),
)
_HEADERS = frozenset(challenge.header for challenge in CHALLENGES)
_STATUSES = frozenset(status for challenge in CHALLENGES for status in challenge.statuses)
# Ordinary pages of Imperva's customers embed an Incapsula resource too, but are never this short.
_MAX_200_BYTES = 8 * 1024


def challenged_by(response: Response) -> str | None:
    """Return the name of the service whose challenge this is; None if it is not a challenge."""
    if response.status not in _STATUSES or (response.status == 200 and len(response.body) > _MAX_200_BYTES):
        return None
    signs = [(name, value.lower()) for name, value in response.headers if name in _HEADERS]
    if not signs:
        return None
    body = response.body[:BODY_BYTES]
    for challenge in CHALLENGES:
        if (
            response.status in challenge.statuses
            and any(name == challenge.header and challenge.value in value for name, value in signs)
            and (not challenge.marks or any(mark in body for mark in challenge.marks))
        ):
            return challenge.service
    return None
