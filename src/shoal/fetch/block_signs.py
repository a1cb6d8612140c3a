"""The signs of blocks, by vendor, and how much each counts. `fetch/challenge.py` adds them up.

A vendor's headers and cookies come with every page of its customers, so they count little. What only its
challenge pages contain counts more. Nothing but a header that announces a challenge is enough alone.
"""

from typing import NamedTuple

ENOUGH = 100


class Sign(NamedTuple):
    vendor: str
    points: int
    mark: str  # in a header: a part of its value, in lower case; in a body: a part of it


GENERIC = "a captcha wall"

HEADERS: dict[str, tuple[Sign, ...]] = {
    "cf-mitigated": (Sign("Cloudflare", 100, "challenge"), Sign("Cloudflare", 100, "block")),
    "cf-ray": (Sign("Cloudflare", 5, ""),),
    "server": (
        Sign("Cloudflare", 10, "cloudflare"),
        Sign("Akamai", 15, "akamai"),
        Sign("DataDome", 25, "datadome"),
        Sign("Sucuri", 20, "sucuri"),
        Sign("AWS WAF", 5, "awselb"),
        Sign("F5", 15, "bigip"),
    ),
    "x-datadome": (Sign("DataDome", 25, ""),),
    "x-dd-b": (Sign("DataDome", 25, ""),),
    "x-iinfo": (Sign("Imperva", 25, ""),),
    "x-cdn": (Sign("Imperva", 15, "imperva"), Sign("Imperva", 15, "incapsula")),
    "x-amzn-waf-action": (Sign("AWS WAF", 100, "challenge"), Sign("AWS WAF", 100, "captcha")),
    "x-kpsdk-ct": (Sign("Kasada", 30, ""),),
    "x-kpsdk-r": (Sign("Kasada", 30, ""),),
    "x-px-block": (Sign("HUMAN", 60, ""),),
    "x-sucuri-id": (Sign("Sucuri", 15, ""),),
    "x-sucuri-block": (Sign("Sucuri", 70, ""),),
    "set-cookie": (
        Sign("DataDome", 25, "datadome="),
        Sign("HUMAN", 25, "_px"),
        Sign("Imperva", 15, "incap_ses"),
        Sign("Imperva", 10, "visid_incap"),
        Sign("Akamai", 10, "_abck="),
        Sign("Akamai", 10, "ak_bmsc="),
        Sign("Kasada", 20, "kpsdk"),
        Sign("F5", 15, "ts01"),
        Sign("F5", 20, "tspd_"),
        Sign("Sucuri", 20, "sucuri_cloudproxy"),
        Sign("Anubis", 30, "anubis"),
    ),
}

# Redirects that lead to a challenge.
LOCATIONS = (
    Sign("Google", ENOUGH, "/sorry/index?continue="),
    Sign("DataDome", ENOUGH, "captcha-delivery.com/"),
    Sign("HUMAN", ENOUGH, "/px/captcha"),
    Sign("Radware", ENOUGH, "validate.perfdrive.com/"),
)

# One of these is in every challenge that the marks below know; looking for few is faster than for many.
ANCHORS = tuple(
    anchor.encode()
    for anchor in (
        "captcha", "challenge", "_cf_chl", "cf-error", "edgesuite", "sec-", "_px", "appId", "ncapsula",
        "awsWaf", "awswaf", "KPSDK", "/ips.js", "bobcmn", "TSPD", "upport ID", "_imp_apg", "ucuri", "sorry",
        "turnstile", "arkoselabs", "funcaptcha", "geetest", "anubis", "nterruption", "perfdrive", "fd_cc",
    )
)  # fmt: skip

BODIES = tuple(
    (Sign(vendor, points, mark), mark.encode())
    for vendor, points, mark in (
        ("Cloudflare", 60, "/orchestrate/chl_"),
        ("Cloudflare", 60, "window._cf_chl_opt"),
        ("Cloudflare", 40, "<title>Just a moment...</title>"),
        ("Cloudflare", 50, "<title>Attention Required! | Cloudflare</title>"),
        ("Cloudflare", 40, 'class="cf-error-details'),
        ("Cloudflare", 50, "cf-browser-verification"),
        ("Cloudflare", 20, "/cdn-cgi/challenge-platform/"),
        ("Akamai", 50, "errors.edgesuite.net"),
        ("Akamai", 30, "Reference&#32;&#35;"),
        ("Akamai", 70, "sec-if-cpt-container"),
        ("Akamai", 70, "sec-cpt-if"),
        ("Akamai", 60, "/_sec/cp_challenge/"),
        ("Akamai", 30, "sec_chlge_form"),
        ("HUMAN", 50, "px-captcha"),
        ("HUMAN", 45, "_pxAppId"),
        ("HUMAN", 30, "captcha.px-c"),
        ("HUMAN", 30, "_pxUuid"),
        ("HUMAN", 60, '"blockScript":"'),
        ("HUMAN", 40, '"appId":"PX'),
        ("DataDome", 60, "captcha-delivery.com"),
        ("DataDome", 40, "var dd={"),
        ("Imperva", 45, "_Incapsula_Resource"),
        ("Imperva", 70, "Incapsula incident ID"),
        ("Imperva", 40, 'id="main-iframe"'),
        ("AWS WAF", 50, "awsWafCookieDomainList"),
        ("AWS WAF", 50, "window.gokuProps"),
        ("AWS WAF", 20, ".awswaf.com/"),
        ("AWS WAF", 20, "AwsWafIntegration"),
        ("Kasada", 40, "KPSDK"),
        ("Kasada", 40, "/ips.js"),
        ("F5", 50, 'window["bobcmn"]'),
        ("F5", 40, "/TSPD/"),
        ("F5", 70, "The requested URL was rejected. Please consult with your administrator"),
        ("F5", 40, "our support ID is"),
        ("F5", 50, "_imp_apg_r_"),
        ("Sucuri", 60, "sucuri_cloudproxy_js"),
        ("Sucuri", 60, "Sucuri Website Firewall"),
        ("Sucuri", 40, "sucuri.net/privacy-policy"),
        ("Google", 60, "Our systems have detected unusual traffic from your computer network"),
        ("Google", 30, "/sorry/index"),
        ("Anubis", 70, "anubis_challenge"),
        ("Radware", 50, "perfdrive.com"),
        ("Radware", 50, "fd_cc_"),
    )
)

# A captcha wall has a widget, says so, and has little else. Forms embed the same widgets, and articles say
# the same words.
WIDGETS = (
    b"recaptcha/api.js", b"recaptcha/enterprise.js", b"g-recaptcha", b"hcaptcha.com/1/api.js", b"h-captcha",
    b"challenges.cloudflare.com/turnstile", b"cf-turnstile", b"arkoselabs.com", b"funcaptcha", b"geetest.com",
)  # fmt: skip
WIDGET_POINTS = 40
PHRASES = (
    b"are a human", b"are human", b"re human", b"you a robot", b"not a robot", b"unusual traffic",
    b"automated access", b"automated requests", b"automated queries", b"suspicious activity",
    b"access to this page has been denied", b"pardon our interruption", b"checking your browser",
    b"complete the captcha", b"solve the captcha", b"complete the security check",
)  # fmt: skip
PHRASE_POINTS = 40
