"""One attempt through exits: which one, and what its faults mean for the URL."""

import pytest
from msgspec import structs

from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.fetcher import HttpFetcher
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.guard import Guard
from shoal.fetch.http.message import Headers
from shoal.fetch.http.send_turn import SendTurn
from shoal.fetch.interpret import RedirectRules
from shoal.model.exits.exit import ChosenExit, ExitWish, ExitWishes, parse_exit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.outcome import Dead, Lease, Released, Retry
from shoal.model.page import NotSent, Response
from shoal.model.request import Request
from shoal.model.settings import ProxySettings

LINES = (
    "http://10.0.0.1:1 name=us kind=residential country=us",
    "http://10.0.0.2:1 name=de kind=isp country=de",
    "http://10.0.0.3:1 name=own kind=datacenter",
)


class Web:
    """A client that answers with a status by exit, or with a failure."""

    def __init__(self, **answers: int | Failure) -> None:
        self.answers = answers
        self.used: list[str] = []

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers,
        body: bytes = b"",
        limits: FetchLimits,
        turn: SendTurn | None,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent:
        assert via is not None
        self.used.append(via.name)
        answer = self.answers.get(via.name, 200)
        if isinstance(answer, Failure):
            return answer
        return Response(url, answer, (), b"", b"", 0.0, 0.0, exit=via.name)


def fetcher(
    web: Web,
    *lines: str,
    wishes: ExitWishes | None = None,
    rotation: str = "worker",
    when_refused: str = "rotate",
) -> HttpFetcher:
    settings = ProxySettings(rotation=rotation, when_refused=when_refused)
    exits = ExitPool([parse_exit(line) for line in lines or LINES], settings, worker="w")
    rules, headers = RedirectRules(Guard()), CrawlHeaders("Shoal/1", {})
    return HttpFetcher(web, SendGate(), rules, headers, exits=exits, wishes=wishes or ExitWishes())


def lease(url: str = "http://a.test/", *, rests: int = 0, kind: str = "", country: str = "") -> Lease:
    request = Request(url=url, exit_kind=kind, country=country)
    return Lease("crawl", 1, 1, url.split("/")[2], request, 1, 0, rests, 0.0, 0.0, 1)


async def test_the_request_beats_its_host_and_the_host_the_crawl() -> None:
    web = Web()
    wishes = ExitWishes(ExitWish("residential"), {"b.test": ExitWish("isp")})
    made = fetcher(web, wishes=wishes)
    await made.attempt(lease())
    await made.attempt(lease("http://b.test/"))
    await made.attempt(lease("http://b.test/", kind="datacenter"))
    assert web.used == ["us", "de", "own"]


async def test_a_kind_that_no_exit_has_is_given_up_with_the_reason() -> None:
    attempt = await fetcher(Web()).attempt(lease(kind="isp", country="us"))
    assert isinstance(attempt.outcome, Dead)
    assert attempt.outcome.failure.failure_class is FailureClass.REFUSED
    assert not attempt.sent


async def test_a_fault_of_every_exit_is_never_counted() -> None:
    gone = Failure(FailureClass.PROXY_ERROR, "exit: gone")
    attempt = await fetcher(Web(us=gone, de=gone, own=gone)).attempt(lease(rests=1_000))
    assert isinstance(attempt.outcome, Released)
    assert not attempt.sent


async def test_a_url_that_every_exit_refuses_is_not_charged_until_that_was_too_often() -> None:
    refused = Failure(FailureClass.PROXY_ERROR, "exit: CONNECT refused, status 403", 403)
    for rests, expected in ((0, Retry), (19, Retry), (20, Dead)):
        attempt = await fetcher(Web(us=refused, de=refused, own=refused)).attempt(lease(rests=rests))
        assert isinstance(attempt.outcome, expected)
        if isinstance(attempt.outcome, Retry):
            assert (attempt.outcome.charged, attempt.outcome.rest) == (False, 0.0), "nor is the host paused"


async def test_a_request_goes_back_unchanged_while_all_exits_rest() -> None:
    web = Web(us=Failure(FailureClass.PROXY_ERROR, "exit: password refused", 407))
    made = fetcher(web, LINES[0])
    await made.attempt(lease())
    attempt = await made.attempt(lease())
    assert isinstance(attempt.outcome, Released)
    assert attempt.outcome.delay > 0
    assert not attempt.sent
    assert web.used == ["us"]


async def test_a_block_moves_the_host_to_another_exit() -> None:
    web = Web()
    made = fetcher(web)
    await made.attempt(lease())
    [first] = web.used
    web.answers = {first: 403}
    for _ in range(2):
        await made.attempt(lease())
    assert web.used[1] == first
    assert web.used[2] != first


@pytest.mark.parametrize(
    ("attempt", "crashes", "status", "kind", "then"),
    [
        (3, 0, 403, "", "isp"),
        (4, 1, 403, "", "isp"),
        (3, 1, 403, "", None),
        (1, 0, 403, "", None),
        (2, 0, 403, "", None),
        (3, 0, 500, "", None),
        (3, 0, 403, "residential", None),
    ],
)
async def test_the_last_attempt_at_a_url_that_is_refused_leaves_through_the_next_kind(
    attempt: int, crashes: int, status: int, kind: str, then: str | None
) -> None:
    made = fetcher(Web(us=status, own=status), wishes=ExitWishes(ExitWish("residential")), when_refused="isp")
    found = await made.attempt(structs.replace(lease(kind=kind), attempt=attempt, crashes=crashes))
    assert isinstance(found.outcome, Retry)
    assert (None if found.outcome.instead is None else found.outcome.instead.exit_kind) == then
