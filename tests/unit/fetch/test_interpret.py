"""What an answer means."""

import msgspec
import pytest

from shoal.fetch.http.guard import Guard
from shoal.fetch.interpret import (
    Conditional,
    FetchedPage,
    Interpretation,
    Redirect,
    RedirectRules,
    interpret,
    parse_retry_after,
    target_of,
)
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import Response
from shoal.model.request import Link, Request

NOW = 1_800_000_000.0
RULES = RedirectRules(Guard(), hops=10, url_bytes=200)
PAGE = "https://a.test/page"


def response(status: int, body: bytes = b"", **headers: str) -> Response:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(PAGE, status, pairs, body, body, NOW, 0.1)


def meaning(
    answer: Response, request: Request | None = None, conditional: Conditional = Conditional.NO
) -> Interpretation:
    return interpret(request or Request(url=PAGE), answer, RULES, conditional=conditional, now=NOW)


def failure(answer: Response, request: Request | None = None) -> Failure:
    result = meaning(answer, request)
    assert isinstance(result, Failure), result
    return result


def redirect(answer: Response, request: Request | None = None) -> Request:
    result = meaning(answer, request)
    assert isinstance(result, Redirect), result
    return result.request


@pytest.mark.parametrize(
    ("status", "parse"), [(200, True), (201, True), (203, True), (204, False), (205, False), (206, True)]
)
def test_a_success_is_a_page(status: int, parse: bool) -> None:
    assert meaning(response(status)) == FetchedPage(parse)


def test_parts_that_a_range_header_asked_for_are_not_parsed() -> None:
    for status, parse in ((200, True), (206, False)):
        answer = response(status)
        found = interpret(Request(url=PAGE), answer, RULES, conditional=Conditional.NO, now=NOW, ranged=True)
        assert found == FetchedPage(parse)


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        (response(301, location="/next"), "https://a.test/next"),
        (response(200, refresh="0; url=/next"), "https://a.test/next"),
        (response(301), None),
        (response(304, location="/next"), None),
        (response(404, refresh="0; url=/next"), None),
    ],
)
def test_an_archived_page_leads_where_its_response_led(answer: Response, target: str | None) -> None:
    found = target_of(Request(url=PAGE), answer, RULES)
    assert (found and found.url) == target


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureClass.HTTP_ERROR),
        (401, FailureClass.HTTP_ERROR),
        (403, FailureClass.IP_BLOCKED),
        (404, FailureClass.GONE),
        (407, FailureClass.HTTP_ERROR),
        (410, FailureClass.GONE),
        (429, FailureClass.RATE_LIMITED),
        (451, FailureClass.HTTP_ERROR),
        (500, FailureClass.TARGET_ERROR),
        (503, FailureClass.TARGET_ERROR),
        (599, FailureClass.TARGET_ERROR),
        (600, FailureClass.HTTP_ERROR),
        (999, FailureClass.HTTP_ERROR),
    ],
)
def test_an_error_has_a_class(status: int, kind: FailureClass) -> None:
    result = failure(response(status))
    assert (result.failure_class, result.status) == (kind, status)


@pytest.mark.parametrize("status", [429, 503])
def test_H27_a_rate_limit_has_its_retry_after(status: int) -> None:
    result = failure(response(status, retry_after="5"))
    assert (result.failure_class, result.retry_after) == (FailureClass.RATE_LIMITED, 5.0)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5.0),
        (" 7 ", 7.0),
        ("86401", 86_400.0),
        ("1000000000", 86_400.0),
        ("Fri, 15 Jan 2027 08:01:00 GMT", 60.0),
        ("Fri, 15 Jan 9999 08:01:00 GMT", 86_400.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("-1", None),
        ("0", None),
        ("1e9", None),
        ("1.5", None),
        ("abc", None),
        ("٥", None),
        ("9" * 10_000, None),
        ("", None),
    ],
)
def test_H28_retry_after_is_limited_to_a_day(value: str, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_a_503_with_an_invalid_retry_after_is_still_rate_limited() -> None:
    result = failure(response(503, retry_after="abc"))
    assert (result.failure_class, result.retry_after) == (FailureClass.RATE_LIMITED, None)


class TestNotModified:
    def test_with_an_archived_copy_a_304_is_parsed(self) -> None:
        assert meaning(response(304), conditional=Conditional.BY_CALLER) == FetchedPage(parse=True)

    def test_a_304_to_the_spiders_own_condition_is_not_parsed(self) -> None:
        assert meaning(response(304), conditional=Conditional.BY_SPIDER) == FetchedPage(parse=False)

    def test_a_304_without_a_condition_is_a_protocol_failure(self) -> None:
        assert failure(response(304)).failure_class is FailureClass.PROTOCOL


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_the_target_carries_the_chain_and_keeps_everything_else(self, status: int) -> None:
        request = Request(
            url=PAGE, depth=3, priority=2, data={"k": 1}, route="r", found_on=7, chain=("http://a.test/",)
        )
        target = redirect(response(status, location="/next?q=1#part"), request)
        assert target == Request(
            url="https://a.test/next?q=1",
            depth=3,
            priority=2,
            data={"k": 1},
            route="r",
            found_on=7,
            chain=("http://a.test/", PAGE),
        )

    @pytest.mark.parametrize("location", [PAGE, "/page", "#x", "", " ", "/first"])
    def test_H20_a_loop_is_a_redirect_failure(self, location: str) -> None:
        request = Request(url=PAGE, chain=("https://a.test/first",))
        assert failure(response(302, location=location), request).failure_class is FailureClass.REDIRECT

    def test_H20_ten_redirects_are_followed_and_no_more(self) -> None:
        hops = tuple(f"https://h{n}.test/" for n in range(10))
        target = redirect(response(302, location="/next"), Request(url=PAGE, chain=hops[:9]))
        assert len(target.chain) == 10
        result = failure(response(302, location="/next"), Request(url=PAGE, chain=hops))
        assert result.failure_class is FailureClass.REDIRECT
        assert "10" in result.reason

    @pytest.mark.parametrize("status", [300, 305, 306, 399])
    def test_other_redirections_lead_nowhere(self, status: int) -> None:
        assert failure(response(status, location="/x")).failure_class is FailureClass.REDIRECT

    @pytest.mark.parametrize(
        ("location", "kind"),
        [
            ("file:///etc/passwd", FailureClass.REFUSED),
            ("data:text/html,x", FailureClass.REFUSED),
            ("javascript:alert(1)", FailureClass.REFUSED),
            ("ftp://a.test/", FailureClass.REFUSED),
            ("s3://bucket/key", FailureClass.REFUSED),
            ("gopher://a.test/", FailureClass.REFUSED),
            ("http://127.0.0.1/", FailureClass.REFUSED),
            ("http://[::ffff:10.0.0.1]/", FailureClass.REFUSED),
            ("http://169.254.169.254/", FailureClass.REFUSED),
            ("http://a.test:22/", FailureClass.REFUSED),
            ("http://user:secret@a.test/", FailureClass.REFUSED),
            ("/" + "x" * 200, FailureClass.REDIRECT),
            ("/caf\u00e9", FailureClass.REDIRECT),  # latin-1: not UTF-8
            ("http://a b/", FailureClass.REDIRECT),
            ("http://a.test:99999/", FailureClass.REDIRECT),
        ],
    )
    def test_H24_a_target_that_cannot_be_fetched_fails(self, location: str, kind: FailureClass) -> None:
        result = failure(response(302, location=location))
        assert result.failure_class is kind
        assert "secret" not in result.reason

    def test_a_location_in_UTF_8_is_understood(self) -> None:
        assert (
            redirect(response(302, location="/\u00e9".encode().decode("latin-1"))).url
            == "https://a.test/%C3%A9"
        )

    def test_line_breaks_in_a_location_do_not_survive(self) -> None:
        assert redirect(response(302, location="/a%0d%0aX: y")).url == "https://a.test/a%0d%0aX:%20y"

    @pytest.mark.parametrize(
        ("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
    )
    def test_H25_a_post_becomes_a_get_unless_the_status_says_otherwise(
        self, status: int, method: str
    ) -> None:
        post = Request(url=PAGE, method="POST", body=b"a=1", headers={"Content-Type": "x", "X-Own": "y"})
        target = redirect(response(status, location="/next"), post)
        assert target.method == method
        assert target.body == (b"a=1" if method == "POST" else b"")
        assert ("Content-Type" in target.headers) is (method == "POST")
        assert target.headers["X-Own"] == "y"

    def test_H25_a_body_does_not_go_to_another_origin(self) -> None:
        post = Request(url=PAGE, method="POST", body=b"a=1")
        assert failure(response(307, location="https://b.test/"), post).failure_class is FailureClass.REDIRECT
        assert redirect(response(303, location="https://b.test/"), post).body == b""

    def test_a_head_stays_a_head(self) -> None:
        assert redirect(response(303, location="/x"), Request(url=PAGE, method="HEAD")).method == "HEAD"

    @pytest.mark.parametrize("location", ["http://a.test/", "https://a.test:8443/", "https://b.test/"])
    def test_H22_headers_that_may_be_secret_stay_with_their_origin(self, location: str) -> None:
        headers = {"Authorization": "x", "Cookie": "x", "X-Api-Key": "x", "Accept-Language": "de"}
        target = redirect(response(302, location=location), Request(url=PAGE, headers=headers))
        assert target.headers == {"Accept-Language": "de"}
        assert (
            redirect(response(302, location="/same"), Request(url=PAGE, headers=headers)).headers == headers
        )

    @pytest.mark.parametrize(
        ("via", "status", "returned"),
        [
            (("https://a.test/orders",), 302, True),
            (("https://a.test/orders",), 307, False),  # still a POST, which has not redirected
            (("https://a.test/other",), 302, False),
            ((), 302, False),
        ],
    )
    def test_a_redirect_back_to_a_url_that_only_redirected_is_marked(
        self, via: tuple[str, ...], status: int, returned: bool
    ) -> None:
        form = Request(url=PAGE, method="POST", body=b"a=1", via=via)
        target = redirect(response(status, location="/orders"), form)
        assert (target.returned, target.via) == (returned, ())
        first = msgspec.structs.replace(target, returned=False, chain=())
        assert (Link.to(first).fingerprint != Link.to(target).fingerprint) is returned


class TestRefresh:
    @pytest.mark.parametrize(
        "value",
        ["0; url=/next", "5;URL='/next'", '0;url="/next"', "0, /next", " 3 ; url = /next ", "1.5;url=/next"],
    )
    def test_the_page_is_kept_and_its_target_followed_with_the_chain(self, value: str) -> None:
        result = meaning(response(200, refresh=value))
        assert isinstance(result, FetchedPage)
        assert result.parse
        assert result.next == Request(url="https://a.test/next", chain=(PAGE,))

    @pytest.mark.parametrize(
        "value",
        [
            "0",
            "soon",
            "0; url=",
            "0; url=/page",
            "0; url=file:///x",
            "0; url=http://127.0.0.1/",
            "sys.exit(1)",
        ],
    )
    def test_an_invalid_refresh_is_ignored(self, value: str) -> None:
        assert meaning(response(200, refresh=value)) == FetchedPage()

    def test_H26_it_counts_as_a_redirect(self) -> None:
        hops = tuple(f"https://h{n}.test/" for n in range(10))
        request = Request(url=PAGE, chain=hops)
        assert meaning(response(200, refresh="0; url=/next"), request) == FetchedPage()


class TestBlocks:
    def test_a_block_is_a_failure_that_names_vendor_and_evidence(self) -> None:
        found = failure(response(403, b"<p>wait</p>", server="cloudflare", cf_mitigated="challenge"))
        assert (found.failure_class, found.status) == (FailureClass.ANTI_BOT, 403)
        assert found.reason.startswith("a block by Cloudflare: status 403, header ")

    def test_a_host_that_says_when_to_come_back_limits_the_rate(self) -> None:
        answer = response(429, b"window._cf_chl_opt={}", server="cloudflare", retry_after="9")
        assert failure(answer).failure_class is FailureClass.RATE_LIMITED

    def test_a_redirect_to_a_captcha_is_a_block(self) -> None:
        answer = response(302, location="https://www.a.test/sorry/index?continue=x")
        assert failure(answer).failure_class is FailureClass.ANTI_BOT


@pytest.mark.parametrize("name", ["referrer_policy", "link", "refresh", "content_type"])
def test_H14_header_values_are_text_and_nothing_else(name: str) -> None:
    answer = response(200, b"x", **{name: "sys.exit"})
    assert meaning(answer) == FetchedPage()
    assert answer.headers[0][1] == "sys.exit"
