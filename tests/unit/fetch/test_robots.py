"""RobotsPolicy.txt files of many sites: fetched once, kept, and what happens while they cannot be had."""

import asyncio
import time
from collections.abc import Callable

import pytest

from shoal.fetch.gate import LocalTurn, SendGate
from shoal.fetch.http.guard import Guard
from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn as AnyTurn
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.robots import LIFETIME_S, PATIENT_TRIES, RobotsPolicy, RobotsUnavailable, lifetime
from shoal.fetch.robots_txt import RobotsRules
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response

SITE = "http://a.test"
TEXT = b"User-agent: *\nDisallow: /private"

Reply = Response | Failure | NotSent


def reply(body: bytes = TEXT, status: int = 200, **headers: str) -> Response:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response("", status, pairs, body, body, 0.0, 0.0)


class Web:
    """Answers by URL; the last answer of a list stays."""

    def __init__(self, **replies: Reply | list[Reply]) -> None:
        self.replies: dict[str, list[Reply]] = {}
        for host, answer in replies.items():
            self.replies[f"http://{host}.test/robots.txt"] = answer if isinstance(answer, list) else [answer]
        self.fetched: list[str] = []
        self.turns: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(
        self, url: str, *, headers: Headers, limits: FetchLimits, turn: AnyTurn | None, first_bytes: int
    ) -> Reply:
        assert isinstance(turn, LocalTurn)
        assert first_bytes == limits.robots_bytes
        self.fetched.append(url)
        self.turns.append(turn.host)
        await self.gate.wait()
        answers = self.replies[url]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def robots(web: Web, clock: Callable[[], float], **options: object) -> RobotsPolicy:
    redirects = RedirectRules(Guard())
    return RobotsPolicy(web, redirects, token="Shoal", clock=clock, **options)  # type: ignore[arg-type]


def turn(host: str) -> LocalTurn:
    return SendGate().turn(host, interval=1.0)


async def rules(robots: RobotsPolicy, origin: str = SITE) -> RobotsRules:
    answer = await robots.rules(origin, turn)
    assert isinstance(answer, RobotsRules)
    return answer


async def down(robots: RobotsPolicy) -> RobotsUnavailable:
    answer = await robots.rules(SITE, turn)
    assert isinstance(answer, RobotsUnavailable)
    return answer


async def test_rules_are_fetched_once_and_kept_for_a_day(clock: Clock) -> None:
    web = Web(a=reply())
    site = robots(web, clock)
    assert site.known(SITE) is None
    assert not (await rules(site)).allows("/private/x")
    clock.now += LIFETIME_S - 1
    assert site.known(SITE) is await rules(site)
    clock.now += 2
    assert site.known(SITE) is None
    await rules(site)
    assert web.fetched == [f"{SITE}/robots.txt"] * 2


async def test_R10_a_thousand_waiting_requests_share_one_fetch(clock: Clock) -> None:
    web = Web(a=[reply(), reply(b"User-agent: *\nDisallow: /")])
    web.gate.clear()
    site = robots(web, clock)
    tasks = [asyncio.create_task(rules(site)) for _ in range(1000)]
    await asyncio.sleep(0)
    web.gate.set()
    answers = await asyncio.gather(*tasks)
    assert len({id(answer) for answer in answers}) == 1
    assert len(web.fetched) == 1


async def test_when_the_fetching_task_is_cancelled_another_fetches(clock: Clock) -> None:
    web = Web(a=reply())
    web.gate.clear()
    site = robots(web, clock)
    tasks = [asyncio.create_task(rules(site)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    web.gate.set()
    assert len({id(answer) for answer in await asyncio.gather(*tasks[1:])}) == 1
    assert len(web.fetched) == 2


async def test_schemes_and_ports_have_rules_of_their_own(clock: Clock) -> None:
    web = Web(a=reply())
    web.replies["https://a.test:8443/robots.txt"] = [reply(b"User-agent: *\nDisallow: /")]
    site = robots(web, clock)
    assert (await rules(site)).allows("/x")
    assert not (await rules(site, "https://a.test:8443")).allows("/x")
    assert web.turns == ["a.test", "a.test:8443"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
async def test_R01_no_robots_txt_means_everything_is_allowed(clock: Clock, status: int) -> None:
    assert (await rules(robots(Web(a=reply(TEXT, status)), clock))).allows("/private")


@pytest.mark.parametrize("status", [500, 502, 503, 599])
async def test_a_server_error_means_nothing_is_allowed_for_now(clock: Clock, status: int) -> None:
    answer = await down(robots(Web(a=reply(TEXT, status)), clock))
    assert (answer.failure.failure_class, answer.failure.status) == (FailureClass.TARGET_ERROR, status)
    assert answer.failure.reason.startswith("robots.txt: ")


async def test_too_many_requests_is_not_no_robots_txt(clock: Clock) -> None:
    answer = await down(robots(Web(a=reply(TEXT, 429, retry_after="120")), clock))
    assert (answer.failure.failure_class, answer.failure.retry_after) == (FailureClass.RATE_LIMITED, 120.0)
    assert answer.retry_in == 120.0


@pytest.mark.parametrize(
    ("kind", "as_page"),
    [
        (FailureClass.CONNECT, FailureClass.CONNECT),
        (FailureClass.DNS, FailureClass.DNS),
        (FailureClass.TIMEOUT, FailureClass.TIMEOUT),
        (FailureClass.REFUSED, FailureClass.REFUSED),
        (FailureClass.BOMB, FailureClass.TARGET_ERROR),  # R09: the file is a bomb, the pages are not
        (FailureClass.TOO_LARGE, FailureClass.TARGET_ERROR),
    ],
)
async def test_R09_an_unavailable_robots_txt_fails_the_pages_with_a_suitable_class(
    clock: Clock, kind: FailureClass, as_page: FailureClass
) -> None:
    answer = await down(robots(Web(a=Failure(kind, "why")), clock))
    assert answer.failure.failure_class is as_page
    assert "why" in answer.failure.reason


async def test_an_unreachable_file_is_asked_for_again_at_growing_distances(clock: Clock) -> None:
    web = Web(a=Failure(FailureClass.CONNECT, "no"))
    site = robots(web, clock)
    waits = []
    for tries in range(1, PATIENT_TRIES + 3):
        answer = await down(site)
        again = await down(site)  # at once: answered from memory
        assert again.retry_in == pytest.approx(answer.retry_in)
        assert len(web.fetched) == tries
        assert answer.patient is (tries <= PATIENT_TRIES)
        waits.append(answer.retry_in)
        clock.now += answer.retry_in
    assert waits[:4] == pytest.approx([2, 4, 8, 16])
    assert waits[-1] == pytest.approx(300)
    web.replies[f"{SITE}/robots.txt"] = [reply()]
    assert not (await rules(site)).allows("/private")


async def test_the_patient_tries_start_over_after_a_success(clock: Clock) -> None:
    web = Web(a=[Failure(FailureClass.CONNECT, "no"), reply(), Failure(FailureClass.CONNECT, "no")])
    site = robots(web, clock)
    clock.now += (await down(site)).retry_in
    await rules(site)
    clock.now += LIFETIME_S + 1
    assert (await down(site)).retry_in == pytest.approx(2)


async def test_a_turn_too_far_off_is_passed_on_and_nothing_is_remembered(clock: Clock) -> None:
    web = Web(a=[NotSent(7.0), reply()])
    site = robots(web, clock)
    assert await site.rules(SITE, turn) == NotSent(7.0)
    assert not (await rules(site)).allows("/private")


async def test_redirects_are_followed_with_a_turn_of_each_host(clock: Clock) -> None:
    web = Web(a=reply(b"", 301, location="http://b.test/robots.txt"), b=reply())
    assert not (await rules(robots(web, clock))).allows("/private")
    assert web.turns == ["a.test", "b.test"]


@pytest.mark.parametrize(
    "location",
    ["", "file:///etc/passwd", "http://127.0.0.1/robots.txt", "http://user@a.test/", f"{SITE}/robots.txt"],
)
async def test_redirects_that_lead_nowhere_mean_there_is_none(clock: Clock, location: str) -> None:
    web = Web(a=reply(TEXT, 302, location=location))
    assert (await rules(robots(web, clock))).allows("/private")
    assert len(web.fetched) <= 6


async def test_a_redirect_to_a_refused_address_means_there_is_none(clock: Clock) -> None:
    web = Web(
        a=reply(b"", 301, location="http://b.test/robots.txt"), b=Failure(FailureClass.REFUSED, "private")
    )
    assert (await rules(robots(web, clock))).allows("/private")


async def test_rules_outlive_the_process_through_the_store(clock: Clock) -> None:
    kept: dict[str, bytes] = {}

    async def load(origin: str) -> bytes | None:
        return kept.get(origin)

    async def save(origin: str, record: bytes, expires: float) -> None:
        assert expires == clock.now + LIFETIME_S
        kept[origin] = record

    first, second = Web(a=reply(), b=reply(b"", 404)), Web(a=reply(b"", 404))
    before = robots(first, clock, load=load, save=save)
    await rules(before)
    assert (await rules(before, "http://b.test")).allows("/private")

    after = robots(second, clock, load=load, save=save)
    assert not (await rules(after)).allows("/private")
    assert (await rules(after, "http://b.test")).allows("/private")
    assert not second.fetched

    clock.now += LIFETIME_S + 1
    assert (await rules(after)).allows("/private")
    assert second.fetched == [f"{SITE}/robots.txt"]


async def test_a_record_that_cannot_be_read_is_fetched_anew(clock: Clock) -> None:
    async def load(origin: str) -> bytes | None:
        return b"from another version"

    assert not (await rules(robots(Web(a=reply()), clock, load=load))).allows("/private")


async def test_an_unavailable_robots_txt_is_not_stored(clock: Clock) -> None:
    saved: list[str] = []

    async def save(origin: str, record: bytes, expires: float) -> None:
        saved.append(origin)

    await down(robots(Web(a=reply(b"", 500)), clock, save=save))
    assert not saved


async def test_the_memory_for_rules_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fetch.robots.MAX_CACHE_BYTES", 10_000)
    web = Web(**{f"h{n}": reply() for n in range(100)})
    site = robots(web, clock)
    for n in range(100):
        await rules(site, f"http://h{n}.test")
    assert site.known("http://h0.test") is None
    assert site.known("http://h99.test") is not None


@pytest.mark.parametrize(
    ("header", "ttl"),
    [
        ("", LIFETIME_S),
        ("public", LIFETIME_S),
        ("max-age=5", 60.0),
        ("Public, Max-Age=3600", 3600.0),
        ("max-age=999999999", LIFETIME_S),
        ("max-age=" + "9" * 400, LIFETIME_S),
        ("no-cache", 60.0),
        ("no-store, max-age=3600", 60.0),
        ("max-age=x", LIFETIME_S),
    ],
)
def test_a_cache_time_is_kept_within_a_minute_and_a_day(header: str, ttl: float) -> None:
    assert lifetime(header, min_ttl=60.0) == ttl


async def test_a_file_with_a_short_cache_time_is_fetched_again_after_it(clock: Clock) -> None:
    web = Web(a=[reply(cache_control="max-age=5"), reply(b"User-agent: *\nDisallow: /")])
    site = robots(web, clock)
    assert (await rules(site)).allows("/page")
    clock.now += 59
    assert (await rules(site)).allows("/page")
    clock.now += 2
    assert not (await rules(site)).allows("/page")


async def test_a_file_that_was_deleted_from_the_store_is_fetched_again(clock: Clock) -> None:
    kept: dict[str, bytes] = {}
    loads = []

    async def load(origin: str) -> bytes | None:
        loads.append(origin)
        return kept.get(origin)

    async def save(origin: str, record: bytes, expires: float) -> None:
        kept[origin] = record

    web = Web(a=[reply(), reply(b"User-agent: *\nDisallow: /")])
    site = robots(web, clock, load=load, save=save)
    first = await rules(site)
    clock.now += 61
    assert await rules(site) is first  # the store has the same file: it is not parsed again
    kept.clear()
    assert await rules(site) is first
    clock.now += 61
    assert not (await rules(site)).allows("/page")
    assert len(loads) == 3


async def test_a_long_crawl_delay_counts_up_to_a_limit(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    web = Web(a=reply(b"User-agent: *\nCrawl-delay: 1e9"), b=reply(b"User-agent: *\nCrawl-delay: 59"))
    site = robots(web, clock)
    assert (await rules(site)).delay == 60.0
    assert (await rules(site, "http://b.test")).delay == 59.0
    assert [record.message for record in caplog.records] == ["robots.delay_capped"]


async def test_a_large_file_is_read_to_its_limit_and_does_not_stop_the_loop(clock: Clock) -> None:
    lines = b"User-agent: *\n" + b"".join(b"Disallow: /%05x\n" % number for number in range(40_000))
    site = robots(Web(a=reply(lines)), clock, limits=FetchLimits(robots_bytes=100_000))
    longest, beating = 0.0, True

    async def beat() -> None:
        nonlocal longest
        while beating:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    heart = asyncio.create_task(beat())
    read = await rules(site)
    beating = False
    await heart
    assert not read.allows("/00000")
    assert read.allows("/09000")  # behind the limit
    assert longest < 0.05  # CPU time of the thread that runs the loop, between two of its iterations
