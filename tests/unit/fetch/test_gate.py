"""Turns at the send gate."""

import random
from itertools import pairwise
from typing import Any

import pytest

from shoal.fetch.gate import LATENCY_ALLOWANCE, MAX_WAIT_S, SWEEP_HOSTS, LocalTurn, SendGate
from shoal.model.pace import AddressPace, TurnKind, TurnRequest
from shoal.model.settings import CrawlSettings


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> SendGate:
    return SendGate(clock=clock)


def ask(gate: SendGate, *, interval: float = 1.0, burst: int = 1, host: str = "a") -> float:
    return gate.ask(gate.turn(host, interval=interval, burst=burst))


def test_the_first_turn_is_free_and_the_next_an_interval_later(gate: SendGate, clock: Clock) -> None:
    assert ask(gate) == 0
    assert ask(gate) == pytest.approx(1.0)
    clock.now += 0.9
    assert ask(gate) == pytest.approx(0.1)
    clock.now += 0.1
    assert ask(gate) == 0


def test_hosts_do_not_wait_for_one_another(gate: SendGate) -> None:
    assert ask(gate, host="a") == 0
    assert ask(gate, host="b") == 0


def test_a_burst_goes_at_once_and_is_earned_again_one_by_one(gate: SendGate, clock: Clock) -> None:
    assert [ask(gate, burst=3) for _ in range(4)] == [0, 0, 0, pytest.approx(1.0)]
    clock.now += 1.0
    assert [ask(gate, burst=3) for _ in range(2)] == [0, pytest.approx(1.0)]


def test_a_wait_does_not_use_the_turn(gate: SendGate, clock: Clock) -> None:
    ask(gate)
    for _ in range(10):
        assert ask(gate) > 0
    clock.now += 1.0
    assert ask(gate) == 0


def test_a_host_that_slowed_down_counts_the_new_interval_from_its_last_send(
    gate: SendGate, clock: Clock
) -> None:
    assert ask(gate, interval=0.5) == 0
    clock.now += 0.5
    assert ask(gate, interval=10.0) == pytest.approx(9.5)


async def test_a_send_that_leaves_late_moves_the_next_turn_by_as_much(gate: SendGate, clock: Clock) -> None:
    turn = gate.turn("a", interval=1.0)
    assert await turn.take() == 0.0
    clock.now += 0.3  # the process was not running
    turn.sent()
    assert ask(gate) == pytest.approx(1.0)


def test_a_late_record_does_not_move_a_turn_that_was_taken(gate: SendGate, clock: Clock) -> None:
    slow = gate.turn("a", interval=1.0)
    gate.ask(slow)
    clock.now += 1.0
    assert ask(gate) == 0
    gate.push_back(slow, 5.0)
    clock.now += 1.0
    assert ask(gate) == 0


def test_any_window_holds_no_more_sends_than_its_length_allows(gate: SendGate, clock: Clock) -> None:
    dice = random.Random(3)
    sends = []
    for _ in range(3000):
        clock.now += dice.expovariate(5)
        if ask(gate, interval=0.5, burst=3) == 0:
            sends.append(clock.now)
    for first in range(len(sends) - 10):
        for length in range(1, 10):
            window = sends[first + length] - sends[first]
            assert length + 1 <= 3 + window / 0.5 + 1e-6


def test_a_host_is_removed_only_when_its_bucket_is_full(gate: SendGate, clock: Clock) -> None:
    ask(gate, host="slow", interval=100.0)
    for n in range(SWEEP_HOSTS + 1):
        ask(gate, host=f"host{n}", interval=0.001)
        clock.now += 0.01
    assert len(gate) < SWEEP_HOSTS
    assert ask(gate, host="slow", interval=100.0) > 0


async def test_a_turn_soon_due_is_awaited() -> None:
    gate = SendGate()
    for _ in range(3):
        turn = gate.turn("a", interval=0.02)
        assert await turn.take() == 0.0
        assert turn.sends == 1


async def test_a_turn_far_away_is_not_awaited(gate: SendGate) -> None:
    assert await gate.turn("a", interval=60.0).take() == 0.0
    turn = gate.turn("a", interval=60.0)
    assert await turn.take() == pytest.approx(60.0)
    assert turn.sends == 0
    assert MAX_WAIT_S < 60


async def test_the_first_byte_moves_the_next_turn_by_a_small_part_of_the_interval(
    gate: SendGate, clock: Clock
) -> None:
    async def wait_after(answer: float) -> float:
        turn: LocalTurn = gate.turn("a", interval=10.0)
        assert await turn.take() == 0.0
        turn.sent()
        sent_at = clock.now
        clock.now += answer
        turn.answered()
        wait = ask(gate, interval=10.0) + clock.now - sent_at
        clock.now += wait
        return wait

    assert await wait_after(0.2) == pytest.approx(10.2)
    assert await wait_after(7.0) == pytest.approx(10 + 10 * LATENCY_ALLOWANCE)


# --- turns of other processes ------------------------------------------------------------------------


def request(receipt: str = "", *, leeway: float = 0.1, ahead: float = 0.0, host: str = "a") -> TurnRequest:
    return TurnRequest(host, 1.0, 0.05, leeway, ahead, receipt=receipt)


def test_another_process_waits_for_the_turn_of_this_one_and_the_reverse(gate: SendGate, clock: Clock) -> None:
    ask(gate)
    refused = gate.grant(request(), "guest")
    assert refused.kind is TurnKind.WAIT
    assert refused.wait == pytest.approx(1.0)

    clock.now += 1.0
    assert gate.grant(request(), "guest").kind is TurnKind.GRANTED
    assert ask(gate) == pytest.approx(1.0 + 0.1)  # it may be sent a leeway later


def test_a_process_follows_its_own_turn_sooner_than_that_of_another(gate: SendGate) -> None:
    assert gate.grant(request(), "guest").wait == 0.0
    assert gate.grant(request(), "guest").wait == pytest.approx(1.0 + 0.05)
    assert gate.grant(request(), "other").wait == pytest.approx(1.0 + 0.1)


def test_a_turn_ahead_is_granted_as_a_slot(gate: SendGate) -> None:
    ask(gate)
    ahead = gate.grant(request(ahead=1.5), "guest")
    assert ahead.kind is TurnKind.GRANTED
    assert ahead.wait == pytest.approx(1.0)
    assert ask(gate) == pytest.approx(2.0 + 0.1)


def test_a_turn_that_was_not_used_is_returned_unless_another_one_was_taken(
    gate: SendGate, clock: Clock
) -> None:
    lost = gate.grant(request(), "guest")
    assert gate.grant(request(lost.receipt), "guest").kind is TurnKind.GRANTED

    late = gate.grant(request(ahead=10.0), "guest")
    gate.grant(request(ahead=10.0), "other")
    assert gate.grant(request(late.receipt), "guest").kind is TurnKind.WAIT


async def test_a_request_that_cannot_leave_takes_no_turn_of_its_site(clock: Clock) -> None:
    held = {"held.example.com"}
    gate = SendGate(
        hold=lambda host: 0.5 if host in held else 0.0,
        addresses=AddressPace(0.1, by_site=True),
        clock=clock,
    )
    for _ in range(9):
        assert await gate.turn("held.example.com", interval=0.1).take() == 0.5
    assert await gate.turn("slow.example.com", interval=9.0).take() == 0.0
    clock.now += 9.0
    gate.push_back(gate._last["slow.example.com"], 9.0)
    for _ in range(9):
        assert await gate.turn("slow.example.com", interval=9.0).take() == pytest.approx(9.0)
    assert gate.reserve("example.com", 0.1) == 0.0


def test_an_address_has_one_pace_over_all_processes(gate: SendGate) -> None:
    gate.reserve("10.0.0.1", 0.5)
    granted = gate.grant(TurnRequest("@10.0.0.1", 0.5, 0.0, 0.0, ahead=MAX_WAIT_S), "guest")
    assert granted.kind is TurnKind.GRANTED
    assert granted.wait == pytest.approx(0.5)
    assert gate.reserve("10.0.0.1", 0.5) == pytest.approx(1.0)


def test_a_site_with_many_hosts_has_a_pace_and_others_have_none(clock: Clock) -> None:
    gate = SendGate(clock=clock, addresses=CrawlSettings(rate=2.0).address_pace)

    def crowds(host: str) -> list[tuple[str, float]]:
        return list(gate.crowds(host, "", 0.5))

    assert [crowds(f"n{number}.shop.example") for number in range(5)] == [[]] * 5
    for number in range(5, 10):
        crowds(f"n{number}.shop.example")
    assert crowds("n3.shop.example") == [("shop.example", 0.1)]
    assert crowds("www.other.example") == crowds("127.0.0.1:80") == []
    assert list(gate.crowds("n3.shop.example", "", 0.02)) == [
        ("shop.example", 0.02)
    ]  # its own pace, if faster


@pytest.mark.parametrize(
    ("settings", "interval"),
    [({"address_rate": 0.0}, 0.0), ({"address_rate": 4.0}, 0.25), ({"pace_by": "address"}, 0.1)],
)
def test_the_pace_of_a_site_follows_the_settings(settings: dict[str, Any], interval: float) -> None:
    assert CrawlSettings(rate=2.0, **settings).address_pace.site_interval_for(0.5) == interval


@pytest.mark.parametrize("seed", range(20))
def test_no_two_requests_of_any_process_are_closer_than_the_interval(seed: int) -> None:
    rng, clock = random.Random(seed), Clock()
    gate = SendGate(clock=clock)
    leeway, margin, interval = 0.2, 0.05, 1.0
    sent: list[float] = []
    last_of: dict[str, float] = {}
    while len(sent) < 200:
        clock.now += rng.uniform(0.0, 0.4)
        process = rng.choice(("owner", "one", "two"))
        if process == "owner":
            if ask(gate) == 0:
                sent.append(clock.now)
            continue
        answer = gate.grant(TurnRequest("a", interval, margin, leeway), process)
        if answer.kind is TurnKind.GRANTED:
            # Late by up to the leeway, and an interval after its own last one by its own clock.
            at = max(clock.now + rng.uniform(0, leeway), last_of.get(process, 0.0) + interval)
            assert at <= clock.now + leeway + 1e-9
            last_of[process] = at
            sent.append(at)
    sent.sort()
    assert min(later - earlier for earlier, later in pairwise(sent)) >= interval - 1e-9
