"""What a request meets at the exits of a process: the clients here are functions."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import Any

import msgspec
import pytest

from shoal.fetch.exits import refusing_hosts
from shoal.fetch.exits.exit_pool import Answer, ExitPool
from shoal.fetch.exits.refusing_hosts import read_refusing
from shoal.fetch.exits.shared_health import SharedHealth, exit_key, host_key_of, read_records
from shoal.model.adaptive_delay import Signal
from shoal.model.errors import Unavailable
from shoal.model.exits.exit import ChosenExit, ExitWish, parse_exit
from shoal.model.exits.health import ExitRecord, rested_by_hand
from shoal.model.exits.refusal import HOLD_S
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import OTHER_EXIT_S
from shoal.model.page import NotSent, Response
from shoal.model.settings import ProxySettings

ANY = ExitWish()
BAD = Failure(FailureClass.PROXY_ERROR, "exit: gone")
LOGIN = Failure(FailureClass.PROXY_ERROR, "exit: password refused", 407)
NOT_TLS = Failure(FailureClass.TLS, "TLS: wrong version number", fault="tunnel")
SILENT_TUNNEL = Failure(FailureClass.TIMEOUT, "no first byte", fault="tunnel")
UNREACHED = Failure(FailureClass.CONNECT, "no connection: the exit answers 502", 502)


def page(via: ChosenExit, status: int = 200, *, by_proxy: bool = False) -> Response:
    return Response("http://a.example/", status, (), b"", b"", 0.0, 0.0, exit=via.name, by_proxy=by_proxy)


class Records:
    """A store of records, in memory, as two processes share it."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.away: Callable[[], None] | None = None  # called by each call that fails

    def _be_away(self) -> None:
        if self.away is not None:
            self.away()
            raise Unavailable("store: away")

    async def all(self) -> Mapping[str, bytes]:
        self._be_away()
        return dict(self.stored)

    async def get(self, key: str) -> bytes | None:
        self._be_away()
        return self.stored.get(key)

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        if self.stored.get(key) != before:
            return False
        if after is None:
            del self.stored[key]
        else:
            self.stored[key] = after
        return True

    async def swap_all(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Set[str]:
        return {key for key, (before, after) in changes.items() if await self.swap(key, before, after)}


class Bench:
    """A pool whose exits answer as the test says: by name, else with a page."""

    def __init__(
        self,
        *lines: str,
        records: Records | None = None,
        worker: str = "w1",
        at: float = 1_000_000.0,
        **settings: Any,
    ) -> None:
        self.now = at
        self.answers: dict[str, Answer] = {}
        self.used: list[str] = []
        self.users: list[str] = []
        self.kept: list[bool] = []
        proxies = ProxySettings(**settings)
        exits = [parse_exit(line) for line in lines]
        health = SharedHealth(exits, records, cool_off=proxies.cool_off, clock=lambda: self.now)
        self.pool = ExitPool(exits, proxies, worker=worker, health=health, clock=lambda: self.now)

    async def call(self, via: ChosenExit) -> Answer:
        self.used.append(via.name)
        self.users.append(via.user)
        self.kept.append(via.keep)
        return self.answers.get(via.name) or page(via)

    async def get(
        self,
        host: str = "a.example",
        wish: ExitWish = ANY,
        *,
        blocked: bool = False,
        signal: Signal | None = None,
        url: str = "",
    ) -> Answer:
        wish = self.pool.wish_for(host, wish)
        answer, via = await self.pool.send(self.call, host=host, wish=wish, url=url)
        if via is not None and isinstance(answer, Response):
            usual = Signal.RATE_LIMITED if blocked else Signal.NORMAL
            self.pool.report(via, host, wish, usual if signal is None else signal, url=url)
        return answer


def lines(number: int, **options: str) -> list[str]:
    extra = "".join(f" {name}={value}" for name, value in options.items())
    return [f"http://10.0.0.{n}:1 name=e{n}{extra}" for n in range(1, number + 1)]


async def test_rotation_request_uses_the_exits_in_turn() -> None:
    bench = Bench(*lines(3), rotation="request")
    for _ in range(6):
        await bench.get()
    assert bench.used == ["e1", "e2", "e3", "e1", "e2", "e3"]


async def test_rotation_timed_keeps_the_exit_of_a_host_until_its_time_is_over() -> None:
    bench = Bench(*lines(8), rotation="timed", sticky=300.0)
    for _ in range(40):
        await bench.get()
        bench.now += 5.0
    changes = [one for one, other in zip(bench.used, bench.used[1:], strict=False) if one != other]
    assert len(changes) <= 1
    bench.used.clear()
    for number in range(40):
        await bench.get(f"host{number}.example")
    assert len(set(bench.used)) >= 6


async def test_rotation_worker_keeps_the_exit_for_ever_and_another_worker_has_another() -> None:
    used = set()
    for worker in ("w1", "w2", "w3", "w4", "w5"):
        bench = Bench(*lines(8), rotation="worker", worker=worker)
        for _ in range(10):
            await bench.get()
            bench.now += 3600.0
        assert len(set(bench.used)) == 1
        used.update(bench.used)
    assert len(used) > 1


@pytest.mark.parametrize("rotation", ["timed", "worker"])
async def test_a_block_changes_the_exit_of_that_host_alone_and_at_once(rotation: str) -> None:
    bench = Bench(*lines(4), rotation=rotation)
    await bench.get("b.example")
    await bench.get(blocked=True)
    await bench.get()
    await bench.get()
    await bench.get("b.example")
    other, first, second, third, other_again = bench.used
    assert first != second == third
    assert other == other_again


async def test_a_gateway_gets_a_session_that_lasts_as_long_as_the_exit_and_a_new_one_after_a_block() -> None:
    gateway = "http://acme-session-{session}:x@10.0.0.1:1 name=gate"
    bench = Bench(gateway, rotation="worker")
    await bench.get()
    await bench.get(blocked=True)
    await bench.get()
    await bench.get("b.example:8080")
    first, again, next_one, other = bench.users
    assert first == again
    assert len({first, next_one, other}) == 3
    assert all(user.replace("-", "").isalnum() for user in bench.users)

    rotating = Bench(gateway, rotation="request")
    for _ in range(3):
        await rotating.get()
    assert len(set(rotating.users)) == 3


async def test_a_request_that_meets_a_bad_exit_goes_to_another_one() -> None:
    bench = Bench(*lines(3), rotation="request")
    bench.answers = {"e1": BAD, "e2": BAD}
    assert isinstance(await bench.get(), Response)
    assert bench.used == ["e1", "e2", "e3"]


async def test_an_exit_that_fails_five_times_rests_and_is_probed_by_one_request() -> None:
    bench = Bench(*lines(2), rotation="request", cool_off=30.0)
    bench.answers = {"e1": BAD}
    for _ in range(12):
        assert isinstance(await bench.get(), Response)
    assert bench.used.count("e1") == 5
    bench.now += 31.0
    bench.used.clear()
    for _ in range(4):
        await bench.get()
    assert bench.used.count("e1") == 1, "it failed the probe"
    bench.now += 61.0
    bench.answers.clear()
    bench.used.clear()
    for _ in range(4):
        await bench.get()
    assert bench.used.count("e1") == 2, "it is back"


async def test_a_refused_password_takes_the_exit_out_at_once() -> None:
    bench = Bench(*lines(2), rotation="request")
    bench.answers = {"e1": LOGIN}
    for _ in range(5):
        await bench.get()
    assert bench.used.count("e1") == 1


async def test_a_request_waits_when_every_exit_rests(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(*lines(2), rotation="request", cool_off=20.0)
    bench.answers = {"e1": LOGIN, "e2": BAD}
    assert await bench.get() == NotSent(OTHER_EXIT_S)
    for _ in range(5):
        await bench.get()
    found = await bench.get()
    assert isinstance(found, NotSent)
    assert 15.0 < found.delay <= 20.0
    await bench.get()
    assert [record.message for record in caplog.records].count("exits.exhausted") == 1
    bench.now += 21.0
    bench.answers.clear()
    assert isinstance(await bench.get(), Response)


async def test_an_exit_that_reaches_no_target_is_at_fault_if_another_one_reaches_it() -> None:
    bench = Bench(*lines(2), rotation="request")
    bench.answers = {"e1": UNREACHED}
    for _ in range(12):
        assert isinstance(await bench.get(), Response)
    assert bench.used.count("e1") == 5


async def test_a_proxys_own_502_in_place_of_a_page_is_asked_for_again_elsewhere() -> None:
    bench = Bench(*lines(2), rotation="request")
    exit = ChosenExit(parse_exit("http://10.0.0.1:1 name=e1"))
    bench.answers = {"e1": page(exit, 502, by_proxy=True)}
    for _ in range(3):
        found = await bench.get()
        assert isinstance(found, Response)
        assert found.status == 200
    alone = Bench(*lines(1), rotation="request")
    await alone.get()
    alone.answers = bench.answers
    assert isinstance(await alone.get(), NotSent), "it served this host a moment ago"
    assert await alone.get("b.example") == bench.answers["e1"], "a host that never answered"


@pytest.mark.parametrize("answer", [UNREACHED, NOT_TLS, SILENT_TUNNEL])
async def test_a_target_is_at_fault_when_its_exits_work_for_another_one_in_the_meantime(
    answer: Failure,
) -> None:
    bench = Bench(*lines(3), rotation="request")
    await bench.get("down.example")
    await bench.get("up.example")
    dead: dict[str, Answer] = dict.fromkeys(("e1", "e2", "e3"), answer)
    for attempt in range(5):
        bench.answers, bench.used = dead, []
        found = await bench.get("down.example")
        assert found == (NotSent(OTHER_EXIT_S) if attempt == 0 else answer)
        assert len(bench.used) == (2 if answer is UNREACHED else 1), (
            "a second exit was asked, if that is safe"
        )
        bench.answers = {}
        for _ in range(3):
            assert isinstance(await bench.get("up.example"), Response)
        bench.now += 5.0


async def test_a_dead_link_is_given_up_soon_although_nothing_else_is_asked_for() -> None:
    bench = Bench(*lines(2), rotation="request")
    await bench.get("up.example")
    bench.answers = dict.fromkeys(("e1", "e2"), UNREACHED)
    for _ in range(4):
        bench.now += 4.0
        assert await bench.get("never-seen.example") == UNREACHED


async def test_hosts_that_were_at_fault_are_so_when_a_crawl_has_nothing_else_left() -> None:
    bench = Bench(*lines(1))
    hosts = [f"dead{number}.example" for number in range(8)]
    for host in hosts:
        bench.answers = {}
        await bench.get("up.example")
        bench.answers = {"e1": UNREACHED}
        assert await bench.get(host) == UNREACHED
    bench.now += 2.0
    for host in hosts:
        found = await bench.get(host)
        assert found == UNREACHED or bench.pool.health.get(exit_key("e1")).rest_until  # type: ignore[union-attr]
    bench.now += 31.0
    for host in hosts[:4]:
        assert await bench.get(host) == UNREACHED, "a probe, and it is charged"


async def test_an_exit_that_reaches_none_of_five_hosts_is_at_fault() -> None:
    bench = Bench(*lines(1), rotation="request")
    await bench.get("up.example")
    bench.answers = {"e1": UNREACHED}
    for number in range(4):
        assert await bench.get(f"h{number}.example") == UNREACHED
    assert isinstance(await bench.get("h5.example"), NotSent)
    bench.now += 11.0
    for number in range(5, 10):
        assert isinstance(await bench.get(f"h{number}.example"), NotSent)
    bench.used.clear()
    assert isinstance(await bench.get("up.example"), NotSent)
    assert not bench.used, "it rests"


@pytest.mark.parametrize(
    "answer", [BAD, LOGIN, UNREACHED, NOT_TLS, SILENT_TUNNEL], ids=["gone", "login", "502", "tls", "silent"]
)
@pytest.mark.parametrize("exits", [1, 4])
@pytest.mark.parametrize("down_s", [600.0, 3_300.0])
async def test_no_url_is_given_up_however_long_all_exits_are_away(
    answer: Failure, exits: int, down_s: float
) -> None:
    bench = Bench(*lines(exits), cool_off=30.0, patience=3_600.0)
    for host in ("a.example", "b.example"):
        await bench.get(host)
    urls = {f"http://{host}/{n}": host for host in ("a.example", "b.example") for n in range(10)}
    went = bench.now
    due = dict.fromkeys(urls, bench.now)
    attempts: Counter[str] = Counter()
    while due:
        url = min(due, key=lambda one: due[one])
        bench.now = max(bench.now, due[url])
        away = bench.now - went < down_s
        bench.answers = {f"e{n}": answer for n in range(1, exits + 1)} if away else {}
        found = await bench.get(urls[url], url=url)
        assert not bench.pool.given_up()
        if isinstance(found, Response):
            del due[url]
        elif isinstance(found, NotSent):
            due[url] = bench.now + max(found.delay, 0.05)
        else:
            attempts[url] += 1
            due[url] = bench.now + 2.0
    assert not attempts, "no URL was charged"
    assert bench.now - went < down_s + (3_700.0 if answer is LOGIN else 200.0)


async def test_requests_wait_for_an_exit_that_has_worked_and_a_minute_for_one_that_never_has() -> None:
    never = Bench(*lines(2), patience=3_600.0)
    worked = Bench(*lines(2), patience=3_600.0)
    await worked.get()
    ended = {}
    for bench in (never, worked):
        went, bench.answers = bench.now, dict.fromkeys(("e1", "e2"), BAD)
        while not (why := bench.pool.given_up()):
            await bench.get()
            bench.now += 1.0
        ended[bench] = bench.now - went
        assert "e" in why
        assert "gone" in why
    assert 60 <= ended[never] < 120
    assert 3_600 <= ended[worked] < 3_700


async def test_time_without_requests_is_no_time_without_exits() -> None:
    bench = Bench(*lines(2), patience=600.0)
    await bench.get()
    bench.answers = dict.fromkeys(("e1", "e2"), BAD)
    while not (isinstance(await bench.get(), NotSent) and bench.pool.is_exhausted):
        bench.now += 0.5
    for _ in range(3):  # a paused crawl, a computer that sleeps, a host that rests
        bench.now += 7_200.0
        assert not bench.pool.given_up()
        for _ in range(8):
            bench.now += 0.5
            await bench.get()
            assert not bench.pool.given_up()
    went = bench.now
    while not (why := bench.pool.given_up()):
        bench.now += 20.0
        await bench.get()
    assert 400 <= bench.now - went <= 600
    assert "gone" in why


async def test_an_exit_that_works_for_another_worker_ends_the_time_without_exits() -> None:
    records = Records()
    idle, other = (Bench(*lines(2), records=records, worker=name, patience=600.0) for name in ("w1", "w2"))
    await idle.get()

    async def gives_up_within(seconds: float) -> bool:
        idle.answers = dict.fromkeys(("e1", "e2"), BAD)
        until = idle.now + seconds
        while idle.now < until and not idle.pool.given_up():
            await idle.get()
            idle.now += 5.0
        return idle.now < until

    assert not await gives_up_within(500.0)
    other.now = idle.now
    while not isinstance(await other.get(), Response):
        other.now += 5.0
    await other.pool.leave()
    idle.now = other.now + 1.0
    await idle.pool.health.sync(force=True)
    assert not await gives_up_within(500.0)
    assert await gives_up_within(300.0)


async def test_exits_that_an_operator_lets_rest_end_no_crawl() -> None:
    bench = Bench(*lines(1))
    bench.answers = {"e1": BAD}
    await bench.get()
    key = exit_key("e1")
    bench.pool.health._set(key, rested_by_hand(ExitRecord(), bench.now, 1e6))
    bench.now += 1e5
    assert not bench.pool.given_up()


async def test_the_list_is_used_in_turn_by_every_host_and_connections_are_kept() -> None:
    bench = Bench(*lines(4))
    for _ in range(8):
        await bench.get("a.example")
        await bench.get("b.example")
    for of_host in (bench.used[::2], bench.used[1::2]):
        assert Counter(of_host) == dict.fromkeys(("e1", "e2", "e3", "e4"), 2)
    assert all(bench.kept)
    assert bench.pool.how_used == "4 exits: the next one for each request"


@pytest.mark.parametrize("rotation", ["turn", "request"])
async def test_a_url_that_was_blocked_goes_through_an_exit_that_it_was_not_blocked_through(
    rotation: str,
) -> None:
    bench = Bench(*lines(3), rotation=rotation)
    url = "http://a.example/1"
    await bench.get(url=url, signal=Signal.CHALLENGED)
    await bench.get()
    await bench.get()
    await bench.get(url=url, signal=Signal.CHALLENGED)
    await bench.get()
    await bench.get()
    await bench.get(url=url, signal=Signal.CHALLENGED)
    assert bench.used == ["e1", "e2", "e3", "e2", "e3", "e1", "e3"]
    await bench.get(url=url)  # where all of them were, each is tried again
    assert bench.used[-1] == "e1"


async def test_with_rotation_request_no_connection_is_kept_whatever_the_exit() -> None:
    bench = Bench(*lines(1), "http://a-session-{session}:x@10.0.0.9:1 name=gate", rotation="request")
    for _ in range(4):
        await bench.get()
    assert set(bench.used) == {"e1", "gate"}
    assert not any(bench.kept)


async def test_a_gateway_in_turn_has_a_session_that_lasts_until_it_is_blocked() -> None:
    bench = Bench("http://a-session-{session}:x@10.0.0.9:1 name=gate")
    for blocked in (False, False, True, False):
        await bench.get(blocked=blocked)
    first, second, third, fourth = bench.users
    assert first == second == third != fourth


async def test_a_host_that_blocks_an_exit_often_rests_it_for_this_host_alone() -> None:
    bench = Bench(*lines(1), rotation="worker")
    for _ in range(5):
        await bench.get(blocked=True)
    assert isinstance(await bench.get(), NotSent)
    assert isinstance(await bench.get("b.example"), Response)


@pytest.mark.parametrize("signal", [Signal.FORBIDDEN, None])
async def test_a_host_that_no_exit_gets_pages_from_is_waited_for_and_then_asked_nevertheless(
    signal: Signal | None, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(*lines(2), rotation="request", cool_off=30.0, when_refused="off")
    if signal is None:
        bench.answers = dict.fromkeys(("e1", "e2"), Failure(FailureClass.TIMEOUT, "first byte"))
    waited = 0.0
    for _ in range(40):
        found = await bench.get(signal=signal)
        if isinstance(found, NotSent):
            waited += found.delay
            bench.now += found.delay
    assert 60.0 <= waited <= 150.0, "it waits for 30 and for 60 seconds"
    for _ in range(10):
        assert not isinstance(await bench.get(signal=signal), NotSent)
    assert not bench.pool.is_exhausted
    told = [record for record in caplog.records if record.message == "exits.exhausted"]
    assert {vars(record)["host"] for record in told} == {"a.example"}
    bench.answers.clear()
    await bench.get(signal=Signal.NORMAL)
    bench.used.clear()
    for _ in range(4):
        assert isinstance(await bench.get(signal=Signal.NORMAL), Response)
    assert len(bench.used) == 4, "what it serves counts at once"


async def test_a_host_that_refuses_the_only_exit_that_works_waits_for_one_that_may_be_back_soon() -> None:
    bench = Bench(*lines(2), rotation="worker", cool_off=30.0)
    for _ in range(5):  # rests at the host, each twice as long
        bench.now += 300.0
        bench.pool.health.fail(host_key_of("e1", "a.example"), "the host turned it away", times=5)
    bench.pool.health.fail(exit_key("e2"), "gone", times=5)
    assert isinstance(await bench.get(), NotSent)
    bench.now += 31.0
    bench.pool.health.fail(exit_key("e2"), "gone")
    assert isinstance(await bench.get(), NotSent)
    bench.now += 61.0
    bench.pool.health.fail(exit_key("e2"), "gone")
    assert isinstance(await bench.get(), Response)
    assert bench.used == ["e1"]


async def test_exits_that_refuse_one_host_by_their_rules_serve_the_others() -> None:
    refused = Failure(FailureClass.PROXY_ERROR, "exit: CONNECT refused, status 403", 403)
    bench = Bench(*lines(2), rotation="request")
    bench.answers = dict.fromkeys(("e1", "e2"), refused)
    for _ in range(5):
        assert await bench.get() == refused, "it counts, so that the request ends some time"
    bench.answers.clear()
    assert isinstance(await bench.get(), NotSent), "they rest at this host"
    assert isinstance(await bench.get("b.example"), Response)


async def test_an_exit_that_refuses_five_hosts_in_a_row_is_at_fault() -> None:
    bench = Bench(*lines(1), rotation="request")
    bench.answers = {"e1": Failure(FailureClass.PROXY_ERROR, "exit: CONNECT refused, status 402", 402)}
    for number in range(5):
        await bench.get(f"h{number}.example")
    bench.answers.clear()
    assert isinstance(await bench.get(), NotSent)


@pytest.mark.parametrize("fault", [BAD, LOGIN])
async def test_no_request_is_given_up_however_many_exits_fail(fault: Failure) -> None:
    bench = Bench(*lines(200), rotation="request")
    bench.answers = {f"e{number}": fault for number in range(1, 201)}
    for _ in range(400):
        assert isinstance(await bench.get(), NotSent)


async def test_kind_and_country_choose_the_exits_and_a_wish_without_one_is_refused() -> None:
    bench = Bench(
        "http://10.0.0.1:1 name=us kind=residential country=us",
        "http://10.0.0.2:1 name=de kind=isp country=de",
        rotation="request",
    )
    for wish in (ExitWish("isp"), ExitWish(country="us"), ExitWish("isp", "de")):
        await bench.get(wish=wish)
    assert bench.used == ["de", "us", "de"]
    found = await bench.get(wish=ExitWish("isp", "us"))
    assert isinstance(found, Failure)
    assert found.failure_class is FailureClass.REFUSED
    assert "'isp'" in found.reason


@pytest.mark.parametrize(("rotation", "most"), [("request", 1), ("worker", 3)])
async def test_an_exit_has_no_more_requests_at_once_than_it_may_have(rotation: str, most: int) -> None:
    bench = Bench(*lines(1), rotation=rotation, connections=3)
    running = peak = 0

    async def call(via: ChosenExit) -> Answer:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.001)
        running -= 1
        return page(via)

    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(bench.pool.send(call, host="a.example", wish=ANY))
    assert peak == most
    assert bench.pool._busy == {}


async def test_processes_share_what_they_know_within_a_second() -> None:
    records = Records()
    one, two = (
        Bench(*lines(2), records=records, worker=worker, rotation="request", cool_off=30.0)
        for worker in ("w1", "w2")
    )
    one.answers = {"e1": BAD}
    for _ in range(5):
        await one.get()
        one.now += 1.1
    await one.get()
    two.now = one.now
    for _ in range(4):
        await two.get()
    assert "e1" not in two.used
    two.now += 40.0
    await two.pool.health.sync(force=True)
    two.used.clear()
    for _ in range(3):
        await two.get()
    assert "e1" in two.used, "it was probed by the other process"
    two.now += 1.1
    await two.get()
    one.now = two.now
    one.answers.clear()
    one.used.clear()
    for _ in range(2):
        await one.get()
    assert set(one.used) == {"e1", "e2"}


async def test_failures_seen_by_different_processes_add_up() -> None:
    records = Records()
    benches = [Bench(*lines(2), records=records, worker=f"w{n}", rotation="request") for n in range(3)]
    for _ in range(2):
        for bench in benches:
            bench.answers = {"e1": BAD}
            bench.used.clear()
            await bench.get()
            await bench.get()
            bench.now += 2.0
            await bench.pool.health.sync(force=True)
    record = benches[0].pool.health.get(exit_key("e1"))
    assert record is not None
    assert record.rest_until
    for bench in benches:
        await bench.pool.health.sync(force=True)
        bench.used.clear()
        await bench.get()
        assert bench.used == ["e2"]


async def test_another_password_is_tried_by_the_next_process() -> None:
    records = Records()
    wrong = Bench(*lines(1), records=records)
    wrong.answers = {"e1": LOGIN}
    await wrong.get()
    await wrong.pool.health.sync(force=True)
    assert isinstance(await wrong.get(), NotSent)
    later = Bench(*lines(1), records=records, at=wrong.now + 60.0)
    assert isinstance(await later.get(), Response)


async def test_records_about_hosts_are_few() -> None:
    records = Records()
    bench = Bench(*lines(1), records=records, rotation="worker")
    for number in range(50):
        await bench.get(f"h{number}.example", blocked=number == 7)
    await bench.pool.health.sync(force=True)
    assert [key for key in records.stored if key.startswith("h/")] == [host_key_of("e1", "h7.example")]
    bench.now += 7200.0
    await bench.pool.health.sync(force=True)
    bench.now += 60.0
    await bench.pool.health.sync(force=True)
    assert not [key for key in records.stored if key.startswith("h/")]


async def refuse(bench: Bench, host: str = "a.example") -> None:
    """Answer 403 often enough for a spike, among normal responses, so that no exit rests for it."""
    for _ in range(5):
        await bench.get(host, signal=Signal.FORBIDDEN)
        await bench.get(host)


async def used_after(bench: Bench, requests: int, host: str = "a.example") -> list[str]:
    bench.used.clear()
    for _ in range(requests):
        await bench.get(host)
    return list(bench.used)


async def test_a_host_that_refuses_addresses_gets_another_exit_for_every_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(*lines(4), rotation="worker")
    await refuse(bench)
    assert len(set(await used_after(bench, 8))) == 4
    assert len(set(await used_after(bench, 8, "b.example"))) == 1, "other hosts keep theirs"
    [told] = [record for record in caplog.records if record.message == "host.exits_changed"]
    assert vars(told)["to"] == "another exit for every request"
    bench.now += HOLD_S + 1
    assert len(set(await used_after(bench, 8))) == 1, "it is over"


async def test_where_every_request_has_another_exit_a_host_that_refuses_them_gets_a_sticky_one() -> None:
    bench = Bench(*lines(4), rotation="request")
    await refuse(bench)
    assert len(set(await used_after(bench, 8))) == 1
    assert len(set(await used_after(bench, 8, "b.example"))) == 4


async def test_a_host_that_refuses_addresses_gets_exits_of_another_kind_unless_none_has_the_country() -> None:
    own = [*lines(2, kind="datacenter", country="us"), "http://10.0.1.1:1 name=isp kind=isp country=us"]
    bench = Bench(*own, "http://10.0.1.2:1 name=de country=de", rotation="timed", when_refused="isp")
    await refuse(bench)
    assert await used_after(bench, 3) == ["isp"] * 3
    bench.used.clear()
    await bench.get(wish=ExitWish(country="de"))
    assert bench.used == ["de"]


async def test_a_host_that_refuses_addresses_changes_nothing_with_off() -> None:
    bench = Bench(*lines(4), rotation="worker", when_refused="off")
    await refuse(bench)
    assert len(set(await used_after(bench, 8))) == 1


async def test_a_gateway_gets_a_new_session_for_every_request_of_a_host_that_refuses_addresses() -> None:
    bench = Bench("http://acme-session-{session}:x@10.0.0.1:1 name=gate", rotation="worker")
    await refuse(bench)
    bench.users.clear()
    await used_after(bench, 4)
    assert len(set(bench.users)) == 4


async def test_processes_share_which_hosts_refuse_addresses_and_drop_what_is_over() -> None:
    records = Records()
    one, two = (
        Bench(*lines(4), records=records, worker=worker, rotation="worker") for worker in ("w1", "w2")
    )
    await refuse(one)
    await one.pool.health.sync(force=True)
    two.now += 2.0
    assert len(set(await used_after(two, 8))) == 4
    assert list(read_refusing(records.stored, one.now)) == ["a.example"]
    one.now += HOLD_S + 60
    await one.get()
    await one.pool.health.sync(force=True)
    assert not [key for key in records.stored if key.startswith("r/")]


async def test_a_host_can_move_as_long_as_it_has_an_exit_that_has_not_refused_it() -> None:
    alone = Bench(*lines(1), rotation="worker")
    await alone.get()
    assert not alone.pool.can_move("a.example", ANY)
    bench = Bench(*lines(2), rotation="worker")
    await bench.get()
    assert bench.pool.can_move("a.example", ANY)
    [used] = bench.used
    other = "e1" if used == "e2" else "e2"
    for _ in range(5):
        bench.pool.health.fail(host_key_of(other, "a.example"), "the host turned it away")
    assert not bench.pool.can_move("a.example", ANY)
    assert bench.pool.can_move("b.example", ANY)


async def test_what_was_seen_while_the_store_was_away_is_shared_later() -> None:
    records = Records()
    one = Bench(*lines(2), records=records, rotation="request")
    health = one.pool.health
    await health.sync()
    for _ in range(2):
        health.fail(exit_key("e1"), "gone")
        records.away = lambda: health.fail(exit_key("e1"), "gone, while the store was asked")
        one.now += 2.0
        with pytest.raises(Unavailable):
            await health.sync()
    records.away, one.now = None, one.now + 2.0
    await health.sync()
    found = read_records(records.stored)[exit_key("e1")]
    assert (found.total, found.run) == (4, 4)


async def test_a_clock_that_is_set_back_does_not_stop_the_sharing() -> None:
    records = Records()
    one = Bench(*lines(1), records=records)
    await one.get()
    one.now -= 3_600.0
    one.pool.health.fail(exit_key("e1"), "gone")
    await one.pool.health.sync()
    assert read_records(records.stored)[exit_key("e1")].last_failure == one.now


async def test_hosts_that_refuse_addresses_are_few_in_the_store_and_a_strange_record_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusing_hosts, "MAX_HOSTS", 20)
    records = Records()
    one = Bench(*lines(2), records=records, when_refused="rotate")
    records.stored["r/strange.example"] = msgspec.msgpack.encode({"rotation": "unknown", "until": 1e12})
    for number in range(60):
        for _ in range(8):
            one.pool.refusing.note(f"h{number}.example", Signal.FORBIDDEN, one.now)
        one.now += 2.0
        await one.pool.health.sync()
    await one.get("strange.example")
    assert len(read_refusing(records.stored, one.now)) <= 21
    one.now += 2 * HOLD_S
    await one.pool.health.sync()
    assert [key for key in records.stored if key.startswith("r/h")] == []
