"""One attempt, from lease to outcome, against a client that answers as a test wants."""

import msgspec
import pytest

from shoal.fetch.contract import Attempt
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.guard import Guard
from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.robots import RobotsPolicy
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.outcome import Dead, Filtered, Gone, Lease, Released, Retry
from shoal.model.page import NotSent, Response
from shoal.model.request import Request
from shoal.model.url import host_key

PAGE = "http://a.test/page"
ROBOTS = "http://a.test/robots.txt"

Reply = tuple[int, bytes, dict[str, str]] | Failure


class Web:
    """A client that takes its turns and answers by URL; what is not there is a 404."""

    def __init__(self, replies: dict[str, Reply]) -> None:
        self.replies = replies
        self.sent: list[tuple[str, str, dict[str, str], bytes]] = []

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers,
        body: bytes = b"",
        limits: FetchLimits,
        turn: SendTurn | None,
        first_bytes: int = 0,
    ) -> Response | Failure | NotSent:
        reply = self.replies.get(url, (404, b"", {}))
        if isinstance(reply, Failure):
            return reply
        if turn is not None and (wait := await turn.take()):
            return NotSent(wait)
        self.sent.append((method, url, dict(headers), body))
        status, content, pairs = reply
        return Response(url, status, tuple(pairs.items()), content, content, 0.0, 0.0)


REDIRECTS = RedirectRules(Guard())


def fetcher(web: Web, *, robots: bool = False, **options: object) -> HttpFetcher:
    asking = RobotsPolicy(web, REDIRECTS, token="shoal") if robots else None
    headers = CrawlHeaders("Shoal/1", {})
    return HttpFetcher(web, SendGate(), REDIRECTS, headers, robots=asking, dice=lambda: 0.5, **options)  # type: ignore[arg-type]


def lease(
    url: str = PAGE, *, interval: float = 0.0, attempt: int = 1, rests: int = 0, **request: object
) -> Lease:
    asked = msgspec.structs.replace(Request(url=url), **request)
    return Lease("crawl", 1, 1, host_key(url), asked, attempt, 0, rests, 0.0, interval, 1)


async def attempt(web: Web, held: Lease | None = None, **options: object) -> Attempt:
    return await fetcher(web, **options).attempt(held or lease())  # type: ignore[arg-type]


async def test_a_page_is_to_be_archived_and_parsed() -> None:
    result = await attempt(Web({PAGE: (200, b"hello", {})}))
    assert result.response is not None
    assert (result.response.body, result.outcome, result.parse, result.sent) == (b"hello", None, True, True)
    assert result.headers[0] == ("Host", "a.test")
    assert dict(result.headers)["User-Agent"] == "Shoal/1"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ((404, b"", {}), Gone),
        ((410, b"", {}), Gone),
        ((400, b"", {}), Dead),
        ((403, b"", {}), Retry),
        ((500, b"", {}), Retry),
        ((429, b"", {}), Retry),
        (Failure(FailureClass.TIMEOUT, "slow"), Retry),
        (Failure(FailureClass.REFUSED, "private"), Dead),
        (Failure(FailureClass.BOMB, "big"), Dead),
    ],
)
async def test_a_failure_becomes_the_outcome_its_policy_names(reply: Reply, expected: type[object]) -> None:
    result = await attempt(Web({PAGE: reply}))
    assert isinstance(result.outcome, expected)
    assert result.signal is None  # the outcome says it
    assert not result.parse


async def test_a_429_rests_the_host_and_charges_nothing() -> None:
    result = await attempt(Web({PAGE: (429, b"", {"retry-after": "5"})}))
    assert isinstance(result.outcome, Retry)
    assert (result.outcome.rest, result.outcome.delay, result.outcome.charged) == (5.0, 5.0, False)


async def test_a_429_without_retry_after_delays_the_request_before_it_rests_the_host() -> None:
    web = Web({PAGE: (429, b"", {})})
    first, sixth = await attempt(web), await attempt(web, lease(rests=5))
    assert isinstance(first.outcome, Retry)
    assert (first.outcome.rest, first.outcome.delay, first.outcome.charged) == (0.0, 2.0, False)
    assert isinstance(sixth.outcome, Retry)
    assert (sixth.outcome.rest, sixth.outcome.delay, sixth.outcome.charged) == (30.0, 30.0, False)


async def test_attempts_run_out() -> None:
    web = Web({PAGE: Failure(FailureClass.CONNECT, "no")})
    assert isinstance((await attempt(web, lease(attempt=3))).outcome, Retry)
    assert isinstance((await attempt(web, lease(attempt=4))).outcome, Dead)


class TestRedirects:
    async def test_the_target_becomes_a_link_that_carries_the_chain(self) -> None:
        result = await attempt(Web({PAGE: (302, b"", {"location": "http://b.test/x"})}), lease(depth=2))
        assert (result.outcome, result.parse) == (None, False)
        assert result.following == Request(url="http://b.test/x", depth=2, chain=(PAGE,))
        assert result.response is not None

    async def test_a_target_out_of_scope_is_a_refused_link_of_a_page_that_is_kept(self) -> None:
        asked: list[tuple[str, int]] = []

        def refuse(url: str, depth: int) -> FailureClass | None:
            asked.append((url, depth))
            return FailureClass.SCOPE

        web = Web({PAGE: (302, b"", {"location": "http://b.test/x"})})
        result = await attempt(web, lease(depth=2), refuse=refuse)
        assert (result.outcome, result.refused, result.parse) == (None, FailureClass.SCOPE, False)
        assert asked == [("http://b.test/x", 2)]
        assert result.following is None

    async def test_a_loop_is_dead(self) -> None:
        result = await attempt(Web({PAGE: (302, b"", {"location": PAGE})}))
        assert isinstance(result.outcome, Dead)
        assert result.outcome.failure.failure_class is FailureClass.REDIRECT

    async def test_a_refresh_header_keeps_the_page_and_adds_a_link(self) -> None:
        result = await attempt(Web({PAGE: (200, b"x", {"refresh": "0; url=/next"})}))
        assert result.parse
        assert result.following == Request(url="http://a.test/next", chain=(PAGE,))

    async def test_a_refresh_out_of_scope_is_left_alone(self) -> None:
        web = Web({PAGE: (200, b"x", {"refresh": "0; url=/next"})})
        result = await attempt(web, refuse=lambda url, depth: FailureClass.SCOPE)
        assert (result.parse, result.following, result.outcome) == (True, None, None)


class TestRobots:
    async def test_a_disallowed_url_is_filtered_and_not_fetched(self) -> None:
        web = Web({ROBOTS: (200, b"User-agent: *\nDisallow: /page", {}), PAGE: (200, b"x", {})})
        result = await attempt(web, robots=True)
        assert result.outcome == Filtered(FailureClass.ROBOTS, "robots.txt disallows it")
        assert [url for _, url, _, _ in web.sent] == [ROBOTS]
        assert result.sent

    async def test_rules_are_asked_for_once(self) -> None:
        web = Web({ROBOTS: (200, b"User-agent: *\nDisallow: /page", {})})
        pages = fetcher(web, robots=True)
        first, second = await pages.attempt(lease()), await pages.attempt(lease())
        assert first.outcome == second.outcome
        assert (first.sent, second.sent) == (True, False)
        assert len(web.sent) == 1

    async def test_a_crawl_delay_is_reported_and_kept_from_the_very_first_page(self) -> None:
        web = Web({ROBOTS: (200, b"User-agent: *\nCrawl-delay: 10", {}), PAGE: (200, b"x", {})})
        result = await attempt(web, lease(interval=0.001), robots=True)
        assert result.crawl_delay == 10.0
        assert isinstance(result.outcome, Released)
        assert 9 < result.outcome.delay <= 10.1
        assert [url for _, url, _, _ in web.sent] == [ROBOTS]
        assert result.sent

    async def test_while_they_are_unreachable_the_page_waits_and_its_host_rests(self) -> None:
        web = Web({ROBOTS: Failure(FailureClass.CONNECT, "refused"), PAGE: (200, b"x", {})})
        result = await attempt(web, robots=True)
        assert isinstance(result.outcome, Retry)
        assert result.outcome.failure.failure_class is FailureClass.CONNECT
        assert result.outcome.charged
        assert result.outcome.delay >= result.outcome.rest == pytest.approx(2.0, abs=0.1)
        assert not web.sent

    async def test_a_page_whose_attempts_are_used_up_is_dead_for_the_same_reason(self) -> None:
        web = Web({ROBOTS: (500, b"", {}), PAGE: (200, b"x", {})})
        result = await attempt(web, lease(attempt=4), robots=True)
        assert isinstance(result.outcome, Dead)
        assert result.outcome.failure.reason == "robots.txt: status 500"


class TestGate:
    async def test_a_turn_too_far_off_releases_the_lease(self) -> None:
        web = Web({PAGE: (200, b"x", {})})
        pages = fetcher(web)
        assert (await pages.attempt(lease(interval=30.0))).parse
        result = await pages.attempt(lease(interval=30.0))
        assert isinstance(result.outcome, Released)
        assert 29 < result.outcome.delay <= 31.5
        assert not result.sent
        assert len(web.sent) == 1

    async def test_robots_txt_takes_a_turn_too(self) -> None:
        web = Web({ROBOTS: (404, b"", {}), PAGE: (200, b"x", {})})
        result = await attempt(web, lease(interval=30.0), robots=True)
        assert isinstance(result.outcome, Released)
        assert [url for _, url, _, _ in web.sent] == [ROBOTS]

    async def test_a_failure_before_the_send_does_not_use_the_turn(self) -> None:
        web = Web({PAGE: Failure(FailureClass.DNS, "no such name")})
        assert not (await attempt(web, lease(interval=30.0))).sent


class TestWhatIsSent:
    async def test_cookies_come_back(self) -> None:
        web = Web({PAGE: (200, b"", {"set-cookie": "a=1"})})
        pages = fetcher(web, jar=CookieJar())
        await pages.attempt(lease())
        await pages.attempt(lease())
        assert [headers.get("Cookie") for _, _, headers, _ in web.sent] == [None, "a=1"]

    async def test_cookies_of_errors_and_redirects_count(self) -> None:
        web = Web({PAGE: (302, b"", {"set-cookie": "a=1; Path=/", "location": "/next"})})
        jar = CookieJar()
        await attempt(web, jar=jar)
        assert len(jar) == 1

    async def test_an_archived_copy_makes_the_request_conditional(self) -> None:
        web = Web({PAGE: (304, b"", {})})
        result = await fetcher(web).attempt(lease(), etag='"x"', modified="yesterday")
        _, _, headers, _ = web.sent[0]
        assert (headers["If-None-Match"], headers["If-Modified-Since"]) == ('"x"', "yesterday")
        assert (result.outcome, result.parse) == (None, True)

    async def test_a_304_without_a_condition_is_not_a_page(self) -> None:
        result = await attempt(Web({PAGE: (304, b"", {})}))
        assert isinstance(result.outcome, Retry)

    async def test_method_body_and_headers_are_the_requests(self) -> None:
        web = Web({PAGE: (200, b"", {})})
        await attempt(web, lease(method="POST", body=b"a=1", headers={"X-A": "b"}))
        [(method, _, headers, body)] = web.sent
        assert (method, body, headers["X-A"]) == ("POST", b"a=1", "b")
