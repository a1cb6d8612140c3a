"""Block pages of the main vendors, written after what they send, and pages that only look like some."""

from shoal.model.page import Response

PAGE = "https://a.test/page"


def response(status: int, body: str = "", *headers: tuple[str, str], url: str = PAGE) -> Response:
    raw = body.encode()
    return Response(url, status, headers, raw, raw, 0.0, 0.1)


CLOUDFLARE = (("server", "cloudflare"), ("cf-ray", "8f0a1b2c3d4e5f60-AMS"))
DATADOME = (("x-datadome", "protected"), ("set-cookie", "datadome=abc; Path=/; Secure"))
IMPERVA = (("x-iinfo", "9-1234-0 0NNN RT(17 0)"), ("x-cdn", "Imperva"))
AKAMAI = (("server", "AkamaiGHost"), ("set-cookie", "_abck=1~-1~; Path=/"))
HUMAN = (("set-cookie", "_pxhd=abc; Path=/"),)
KASADA = (("x-kpsdk-ct", "0aBcD"), ("set-cookie", "KP_UIDz=x"))
SUCURI = (("server", "Sucuri/Cloudproxy"), ("x-sucuri-id", "14005"))
F5 = (("set-cookie", "TS01a2b3c4=0123; Path=/"), ("server", "BigIP"))
AWS = (("server", "awselb/2.0"),)
VENDOR_HEADERS = (CLOUDFLARE, DATADOME, IMPERVA, AKAMAI, HUMAN, KASADA, SUCURI, F5, AWS)

JUST_A_MOMENT = """<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title>
<meta name="robots" content="noindex,nofollow"></head><body><noscript>Enable JavaScript and cookies to continue</noscript>
<script>(function(){window._cf_chl_opt={cvId:'3',cZone:'a.test',cType:'managed'};var a=document.createElement('script');
a.src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1?ray=8f0a';document.head.appendChild(a)}());</script></body></html>"""
WIDGET_WALL = """<html><head><title>{title}</title><script src="{script}" async></script></head><body><h1>{phrase}</h1>
<form method="post"><div class="{widget}" data-sitekey="k"></div><input type="submit" value="Continue"></form></body></html>"""

BLOCKS: dict[str, tuple[str, Response]] = {
    "cloudflare managed challenge": (
        "Cloudflare",
        response(403, JUST_A_MOMENT, *CLOUDFLARE, ("cf-mitigated", "challenge")),
    ),
    "cloudflare challenge without its header": ("Cloudflare", response(503, JUST_A_MOMENT, *CLOUDFLARE)),
    "cloudflare challenge with status 200": ("Cloudflare", response(200, JUST_A_MOMENT, *CLOUDFLARE)),
    "cloudflare firewall": (
        "Cloudflare",
        response(
            403,
            "<html><head><title>Attention Required! | Cloudflare</title></head><body>"
            '<div id="cf-error-details" class="cf-error-details-wrapper"><h1>Sorry, you have been blocked</h1>'
            "</div></body></html>",
            *CLOUDFLARE,
        ),
    ),
    "akamai access denied": (
        "Akamai",
        response(
            403,
            "<HTML><HEAD><TITLE>Access Denied</TITLE></HEAD><BODY><H1>Access Denied</H1> You don't have permission"
            " to access this server.<P>Reference&#32;&#35;18&#46;5f&#46;17&#46;1a"
            "<P>https&#58;&#47;&#47;errors.edgesuite.net/18.5f.17.1a</BODY></HTML>",
            *AKAMAI,
        ),
    ),
    "akamai challenge": (
        "Akamai",
        response(
            428,
            '<div id="sec-if-cpt-container" role="main"></div><script src="/x/sec-cpt"></script>',
            *AKAMAI,
        ),
    ),
    "akamai challenge with status 200": (
        "Akamai",
        response(200, '<iframe id="sec-cpt-if" provider="crypto" src=""></iframe>', *AKAMAI),
    ),
    "human press and hold": (
        "HUMAN",
        response(
            403,
            "<title>Access to this page has been denied</title><script>window._pxAppId='PXaBc';"
            "window._pxUuid='1-2';</script><div id=\"px-captcha\"></div>"
            '<script src="https://captcha.px-cdn.net/PXaBc/captcha.js"></script>',
            *HUMAN,
        ),
    ),
    "human as json": (
        "HUMAN",
        response(403, '{"appId":"PXaBc","jsClientSrc":"/i.js","blockScript":"/captcha.js","vid":""}'),
    ),
    "datadome captcha": (
        "DataDome",
        response(
            403,
            "<html><head><title>a.test</title></head><body><script>var dd={'rt':'c','cid':'x','host':"
            "'geo.captcha-delivery.com'}</script><script src='https://ct.captcha-delivery.com/c.js'></script></body>",
            *DATADOME,
        ),
    ),
    "datadome redirect": (
        "DataDome",
        response(302, "", ("location", "https://geo.captcha-delivery.com/captcha/?initialCid=x")),
    ),
    "imperva iframe with status 200": (
        "Imperva",
        response(
            200,
            '<html style="height:100%"><head><meta name="ROBOTS" content="NOINDEX, NOFOLLOW"></head><body>'
            '<iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=9-1&incident_id=1-2"'
            ' frameborder=0 width="100%">Request unsuccessful. Incapsula incident ID: 1-2</iframe></body></html>',
            *IMPERVA,
        ),
    ),
    "imperva script with status 200": (
        "Imperva",
        response(
            200,
            '<html><head><script src="/_Incapsula_Resource?SWJIYLWA=71"></script></head></html>',
            *IMPERVA,
        ),
    ),
    "aws challenge": ("AWS WAF", response(202, "", ("x-amzn-waf-action", "challenge"), *AWS)),
    "aws captcha": (
        "AWS WAF",
        response(405, "<script>window.gokuProps={};</script>", ("x-amzn-waf-action", "captcha")),
    ),
    "aws challenge without its header": (
        "AWS WAF",
        response(
            202,
            "<script>window.awsWafCookieDomainList=[];window.gokuProps={key:'x'};</script>"
            '<script src="https://x.token.awswaf.com/x/challenge.js"></script>',
        ),
    ),
    "kasada": (
        "Kasada",
        response(
            429,
            '<script>window.KPSDK={};KPSDK.now=Date.now;</script><script src="/149e9513/2d20/ips.js"></script>',
            *KASADA,
        ),
    ),
    "kasada with an empty body": ("Kasada", response(429, "", *KASADA)),
    "f5 rejected": (
        "F5",
        response(
            200,
            "<html><head><title>Request Rejected</title></head><body>The requested URL was rejected. Please consult"
            " with your administrator.<br><br>Your support ID is: 1234567890</body></html>",
        ),
    ),
    "f5 script": (
        "F5",
        response(
            200,
            '<html><head><script>window["bobcmn"]="1011";</script><script src="/TSPD/08a?type=9"></script></head>'
            "<body><noscript>Please enable JavaScript to view the page content.</noscript></body></html>",
            *F5,
        ),
    ),
    "sucuri script with status 200": (
        "Sucuri",
        response(
            200,
            "<html><title>You are being redirected...</title><script>var s={},S='sucuri_cloudproxy_js=';"
            "sucuri_cloudproxy_js='';</script></html>",
            *SUCURI,
        ),
    ),
    "sucuri firewall": (
        "Sucuri",
        response(
            403,
            "<title>Sucuri Website Firewall - Access Denied</title><p>If you are the site owner</p>"
            '<a href="https://sucuri.net/privacy-policy">privacy</a>',
            *SUCURI,
        ),
    ),
    "google sorry": (
        "Google",
        response(
            429,
            "<title>https://a.test/search</title><form action='index'><div id='recaptcha' class='g-recaptcha'></div></form>"
            "Our systems have detected unusual traffic from your computer network.",
            url="https://www.a.test/sorry/index?continue=x",
        ),
    ),
    "google redirect": (
        "Google",
        response(302, "", ("location", "https://www.a.test/sorry/index?continue=https://www.a.test/search")),
    ),
    "anubis": (
        "Anubis",
        response(
            200,
            '<title>Making sure you&#39;re not a bot!</title><script id="anubis_challenge" type="application/json">{}</script>',
            ("set-cookie", "techaro.lol-anubis-auth=; Path=/"),
        ),
    ),
    "recaptcha wall with status 200": (
        "a captcha wall",
        response(
            200,
            WIDGET_WALL.format(
                title="Security check",
                script="https://www.google.com/recaptcha/api.js",
                phrase="Please confirm that you are a human",
                widget="g-recaptcha",
            ),
        ),
    ),
    "hcaptcha wall": (
        "a captcha wall",
        response(
            403,
            WIDGET_WALL.format(
                title="One more step",
                script="https://js.hcaptcha.com/1/api.js",
                phrase="Complete the security check to continue",
                widget="h-captcha",
            ),
        ),
    ),
    "turnstile wall": (
        "a captcha wall",
        response(
            503,
            WIDGET_WALL.format(
                title="a.test",
                script="https://challenges.cloudflare.com/turnstile/v0/api.js",
                phrase="Checking your browser",
                widget="cf-turnstile",
            ),
        ),
    ),
    "datadome with an empty body": ("DataDome", response(403, "", *DATADOME)),
}

LINKS = "".join(f'<li><a href="/{number}">article {number}</a></li>' for number in range(12))
FORM = """<html><body><ul>{links}</ul><form action="/contact"><input name="mail"><textarea name="text"></textarea>
<script src="https://www.google.com/recaptcha/api.js"></script><div class="g-recaptcha"></div>
<p>Tell us that you are not a robot</p></form></body></html>"""
LOGIN = """<html><body><form action="/login"><input name="user"><input type="password" name="password">
<div class="h-captcha"></div><script src="https://hcaptcha.com/1/api.js"></script> Show that you are human</form></body></html>"""
ARTICLE = f"""<html><body><ul>{LINKS}</ul><article><h1>How challenges work</h1><p>The page sets <code>window._cf_chl_opt</code> and loads
<code>/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1</code>; px-captcha, _pxAppId, captcha-delivery.com, KPSDK, /ips.js,
_Incapsula_Resource, Incapsula incident ID, sec-if-cpt-container, window.gokuProps, awsWafCookieDomainList, sucuri_cloudproxy_js,
g-recaptcha, hcaptcha, unusual traffic, are you a robot, pardon our interruption.</p></article></body></html>"""

PAGES: dict[str, Response] = {
    "a page": response(200, "<title>a page</title><p>text</p>"),
    "a short page": response(200, "ok"),
    "an empty page": response(200, ""),
    "an empty page behind a vendor": response(200, "", ("x-datadome", "protected")),
    "no content": response(204, "", *DATADOME),
    "json": response(200, '{"captcha": false, "challenge": null}'),
    "a contact form": response(200, FORM.format(links=LINKS)),
    "a log-in form": response(200, LOGIN),
    "a log-in form behind a vendor": response(200, LOGIN, *CLOUDFLARE),
    "an article about challenges": response(200, ARTICLE, *CLOUDFLARE),
    "an article about challenges, behind another": response(200, ARTICLE, *DATADOME, *IMPERVA),
    "javascript detections of cloudflare": response(
        200,
        "<p>a page</p><script>a.src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'</script>",
        *CLOUDFLARE,
    ),
    "a long page with imperva's script": response(
        200, '<script src="/_Incapsula_Resource?SWJIYLWA=1"></script>' + "x" * 10_000, *IMPERVA
    ),
    "a page with the sensor of aws": response(
        200, '<script src="https://x.token.awswaf.com/x/challenge.js"></script><p>a page</p>'
    ),
    "a word": response(200, "<p>captcha</p>"),
}

OTHER_FAILURES: dict[str, Response] = {
    "forbidden": response(403, "<title>Forbidden</title>", *CLOUDFLARE),
    "forbidden, with a word": response(403, "Attention required: captcha", *CLOUDFLARE),
    "forbidden by a log-in": response(403, LOGIN),
    "not found": response(404, JUST_A_MOMENT, *CLOUDFLARE),
    "too often": response(429, "captcha", *CLOUDFLARE),
    "unavailable": response(503, "<h1>Service Unavailable</h1>", *AKAMAI),
    "an error": response(500, JUST_A_MOMENT, *CLOUDFLARE),
    "a redirect": response(302, "", ("location", "/sorry")),
}
