"""Simulated sites in virtual time: what a host of each kind costs, and that its limit is kept.

`python -m tests.unit.frontier.test_simulated_sites` prints the table of docs/blocks.md.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from shoal.frontier.governor import Governor
from shoal.frontier.rules import HostRecord
from shoal.model.adaptive_delay import Signal, SlowdownRules, UsualTimes, is_lone, signal_of
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Retry, RetryRules, judge
from shoal.model.pace import Pace

DOCUMENT = Path(__file__).parents[3] / "docs" / "blocks.md"
PACE = Pace(interval=0.5, burst=1, concurrency=4)
HOUR = 3600.0
CLASSES = {
    403: FailureClass.IP_BLOCKED,
    429: FailureClass.RATE_LIMITED,
    500: FailureClass.TARGET_ERROR,
    503: FailureClass.RATE_LIMITED,
}


def refused(status: int, retry_after: float | None = None) -> Failure:
    return Failure(CLASSES[status], str(status), status, retry_after)


@dataclass
class Site:
    """A site whose `rule` says how a URL is answered, and that may limit or slow down."""

    rule: Callable[[int, float], Failure | None] = lambda url, now: None
    rate: float = 0.0  # requests per second that it serves; the rest is refused; 0: all
    retry_after: float | None = None
    capacity: int = 1  # requests that it serves at once after a pause
    loaded_at: float = 0.0  # requests per second at which its responses begin to take ever longer; 0: never
    tokens: float = 1.0
    filled_at: float = 0.0
    closed_until: float = 0.0
    early: int = 0  # requests before the end of a wait that the whole site asked for
    asked: deque[float] = field(default_factory=lambda: deque(maxlen=30))

    def answer(self, url: int, now: float) -> Failure | None:
        self.early += now < self.closed_until - 1e-6
        self.asked.append(now)
        if not self.rate:
            return self.rule(url, now)
        self.tokens = min(self.tokens + (now - self.filled_at) * self.rate, self.capacity)
        self.filled_at = now
        if self.tokens >= 1 - 1e-9:
            self.tokens -= 1
            return self.rule(url, now)
        if self.retry_after is not None:
            self.closed_until = now + self.retry_after
        return refused(429, self.retry_after)

    def seconds(self, now: float) -> float:
        """Return how long a response takes."""
        if not self.loaded_at or len(self.asked) < 30:
            return 0.2
        load = (len(self.asked) - 1) / max(now - self.asked[0], 0.01)
        return 0.2 if load < self.loaded_at else 0.2 + 10 * (load - self.loaded_at)


@dataclass
class Crawl:
    """One worker that crawls a site, with the rules of the frontier; `blames` holds verdicts by URL."""

    site: Site
    pages: int
    pace: Pace = PACE
    governor: Governor = field(default_factory=lambda: Governor(HostRecord()))
    now: float = 0.0
    served: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    tries: dict[int, int] = field(default_factory=dict)
    blames: dict[int, list[bool]] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    slowest: float = 1.0

    def run(self) -> "Crawl":
        governor, usual, dice = self.governor, UsualTimes(), random.Random(1)
        governor.follow([self.pace], SlowdownRules())
        slots = [0.0] * self.pace.concurrency  # when each is free
        queue = [(0, url, 0.0, 0, 0) for url in range(self.pages)]  # band, url, due, attempts, rests
        while queue:
            self.now = max(self.now, governor.ready, slots[0], min(due for _, _, due, *_ in queue))
            entry = min(one for one in queue if one[2] <= self.now)
            queue.remove(entry)
            _, url, _, attempts, rests = entry
            governor.take(self.now, len(self.sent))
            governor.inflight -= 1
            self.sent.append(self.now)
            self.tries[url] = self.tries.get(url, 0) + 1
            failure = self.site.answer(url, self.now)
            slots = sorted([*slots[1:], self.now + self.site.seconds(self.now)])
            if failure is not None:
                signal = signal_of(failure)
            else:
                late = usual.is_late("site", self.site.seconds(self.now))
                signal = Signal.LATE if late else Signal.NORMAL
            assert signal is not None
            alone = governor.blames_request(signal, charged=attempts, rests=rests)
            if alone or governor.record_response(signal):
                governor.follow([self.pace], SlowdownRules())
            self.slowest = max(self.slowest, governor.record.slow)
            if failure is None:
                self.served.append(self.now)
                continue
            self.refusals.append(self.now)
            self.blames.setdefault(url, []).append(alone)
            outcome = judge(
                failure, attempt=attempts + 1, rests=rests, rules=RetryRules(), jitter=dice.random()
            )
            if isinstance(outcome, Dead):
                self.dead.add(url)
                continue
            assert isinstance(outcome, Retry)
            if outcome.rest > 0 and not alone:
                governor.rest(self.now + outcome.rest)
            delay = outcome.delay
            if signal is Signal.RATE_LIMITED and not alone:
                delay = governor.retry_delay(delay, outcome.rest)
            charged = outcome.charged or alone
            attempts, rests = attempts + charged, rests + (not charged)
            queue.append((attempts, url, self.now + delay, attempts, rests))
        return self


THREE = {7: refused(429, 5.0), 19: refused(403), 33: refused(500)}
SECTION = {url: refused(429, 5.0) for url in range(100, 130)}
# Name, site, pages, URLs that it never serves, seconds at best.
SITES: list[tuple[str, Callable[[], Site], int, int, float]] = [
    ("no trouble", Site, 60, 0, 29.5),
    (
        "one URL always 429 (Retry-After 5), one 403, one 500",
        lambda: Site(lambda url, now: THREE.get(url)),
        60,
        3,
        29.5,
    ),
    (
        "the second URL always 429 (Retry-After 5)",
        lambda: Site(lambda url, now: THREE[7] if url == 1 else None),
        60,
        1,
        29.5,
    ),
    (
        "every tenth URL always 403",
        lambda: Site(lambda url, now: THREE[19] if url % 10 == 3 else None),
        300,
        30,
        149.5,
    ),
    (
        "every tenth URL always 429",
        lambda: Site(lambda url, now: refused(429) if url % 10 == 3 else None),
        300,
        30,
        149.5,
    ),
    (
        "30 URLs in a row always 429 (Retry-After 5)",
        lambda: Site(lambda url, now: SECTION.get(url)),
        300,
        30,
        149.5,
    ),
    ("limit of 0.2/s", lambda: Site(rate=0.2), 300, 0, 1495.0),
    ("limit of 1/s", lambda: Site(rate=1.0), 300, 0, 299.0),
    ("limit of 1.8/s", lambda: Site(rate=1.8), 300, 0, 166.1),
    ("limit of 0.2/s, Retry-After 10", lambda: Site(rate=0.2, retry_after=10.0), 300, 0, 1495.0),
    ("limit of 1/s, Retry-After 10", lambda: Site(rate=1.0, retry_after=10.0), 300, 0, 299.0),
    ("limit of 1.8/s, Retry-After 10", lambda: Site(rate=1.8, retry_after=10.0), 300, 0, 166.1),
    (
        "503 for an hour",
        lambda: Site(lambda url, now: refused(503) if 30 <= now < 30 + HOUR else None),
        400,
        0,
        HOUR + 199.5,
    ),
    (
        "403 for good after 20 s",
        lambda: Site(lambda url, now: THREE[19] if now > 20 else None),
        120,
        79,
        20.0,
    ),
    ("ever slower above 1/s", lambda: Site(loaded_at=1.0), 300, 0, 149.5),
]
NAMES = [name for name, *_ in SITES]
BAD_URLS = NAMES[1:6]
LIMITS = {NAMES[6]: 0.2, NAMES[7]: 1.0, NAMES[8]: 1.8, NAMES[9]: 0.2, NAMES[10]: 1.0, NAMES[11]: 1.8}


@cache
def crawled(name: str) -> Crawl:
    [(_, site, pages, *_)] = [one for one in SITES if one[0] == name]
    return Crawl(site(), pages).run()


def table() -> str:
    """Return the table of docs/blocks.md."""
    lines = [
        "| site, at 2 requests per second | pages | served after | time lost | refused | too early | pages lost |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, _, pages, bad, best in SITES:
        crawl = crawled(name)
        last = crawl.served[-1]
        lines.append(
            f"| {name} | {pages} | {last:,.0f} s | {max(last - best, 0):,.0f} s | {len(crawl.refusals)} |"
            f" {crawl.site.early} | {len(crawl.dead) - bad} |"
        )
    return "\n".join(lines)


def test_the_table_in_the_documentation_is_current() -> None:
    assert table() in DOCUMENT.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_no_request_is_sent_before_a_stated_wait_is_over_and_no_good_page_is_lost(name: str) -> None:
    [bad] = [bad for one, _, _, bad, _ in SITES if one == name]
    crawl = crawled(name)
    assert crawl.site.early == 0
    assert len(crawl.dead) == bad


def test_a_bad_url_of_each_kind_costs_its_host_about_a_fifth_of_its_time() -> None:
    usual, crawl = crawled("no trouble"), crawled(BAD_URLS[0])
    assert crawl.served[-1] <= 1.21 * usual.served[-1]
    assert crawl.slowest < 1.2
    assert {url: crawl.tries[url] for url in THREE} == {7: 6, 19: 4, 33: 4}


@pytest.mark.parametrize("retry_after", [None, 5.0])
def test_one_url_that_is_always_refused_costs_its_host_a_fifth_of_its_time_at_most(
    retry_after: float | None,
) -> None:
    usual = crawled("no trouble")
    crawl = Crawl(Site(lambda url, now: refused(429, retry_after) if url == 12 else None), 60).run()
    assert crawl.served[-1] <= 1.2 * usual.served[-1]
    assert crawl.dead == {12}
    assert crawl.tries[12] <= 7


def test_a_bad_url_before_a_host_is_known_rests_it_twice() -> None:
    usual, crawl = crawled("no trouble"), crawled(BAD_URLS[1])
    assert crawl.served[-1] <= usual.served[-1] + 2 * 5.0 + 1.0


@pytest.mark.parametrize("name", BAD_URLS)
def test_a_bad_url_is_given_up_after_its_attempts_and_the_verdict_on_it_stays(name: str) -> None:
    crawl = crawled(name)
    # A long row of refusals, and no response after it, looks like a ban: it is not charged.
    most = RetryRules().max_rests + RetryRules().max_retries + 1 if name == BAD_URLS[4] else 10
    assert max(crawl.tries[url] for url in crawl.dead) <= most
    for verdicts in crawl.blames.values():
        assert sum(verdicts) <= RetryRules().max_retries + 2
        assert verdicts == sorted(verdicts)


@pytest.mark.parametrize(("name", "rate"), LIMITS.items())
def test_a_limit_is_approached_from_below_and_is_never_blamed_on_a_request(name: str, rate: float) -> None:
    crawl = crawled(name)
    assert not any(any(verdicts) for verdicts in crawl.blames.values())
    settled = [at for at in crawl.sent if at >= crawl.now / 2]
    assert len(settled) <= rate * crawl.now / 2 * 1.03 + 1
    assert len([at for at in crawl.refusals if at >= crawl.now / 2]) <= 0.04 * len(settled)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_limit_no_stated_wait_is_cut_short_and_no_page_is_lost(seed: int) -> None:
    dice = random.Random(seed)
    wait = dice.choice([None, 3.0, 10.0, 30.0])
    crawl = Crawl(Site(rate=dice.uniform(0.1, 1.99), retry_after=wait, capacity=dice.choice([1, 3, 10])), 150)
    crawl.run()
    assert (crawl.site.early, crawl.dead) == (0, set())


@pytest.mark.parametrize(
    ("signal", "charged", "rests", "responses", "lone"),
    [
        (Signal.FORBIDDEN, 0, 0, "0" * 20, False),  # the first time
        (Signal.FORBIDDEN, 1, 0, "0" * 9 + "1", True),
        (Signal.FORBIDDEN, 1, 0, "00001111111", False),
        (Signal.RATE_LIMITED, 0, 1, "0" * 9 + "2", True),  # the first one after its rest
        (Signal.RATE_LIMITED, 0, 1, "0" * 9 + "2000", True),  # others were on their way
        (Signal.RATE_LIMITED, 0, 1, "0" * 9 + "200000", False),  # they may have used up a limit
        (Signal.RATE_LIMITED, 0, 1, "0" * 8 + "22", False),  # another request was refused, too
        (Signal.RATE_LIMITED, 0, 1, "02", False),  # no neighbours
        (Signal.RATE_LIMITED, 0, 2, "0" * 30 + "2000002" + "0" * 9, True),
        (Signal.RATE_LIMITED, 0, 3, "0" * 20, False),  # three faults of exits, and the first 429
        (Signal.RATE_LIMITED, 3, 0, "0" * 20, False),  # three time-outs, and the first 429
        (Signal.RATE_LIMITED, 2, 1, "0" * 20, True),  # found at fault before
        (Signal.RATE_LIMITED, 1, 1, "0" * 9 + "2" + "0" * 9, True),  # and others were served after that
        (Signal.RATE_LIMITED, 1, 1, "0" * 9 + "2", False),  # charged once, and no other was served since
        (Signal.RATE_LIMITED, 1, 2, "0" * 97 + "22", False),  # chance says no more then
        (Signal.RATE_LIMITED, 0, 1, "0" * 90 + "22", False),
    ],
)
def test_what_is_evidence_against_a_request(
    signal: Signal, charged: int, rests: int, responses: str, lone: bool
) -> None:
    assert is_lone(signal, charged, rests, responses) is lone


def test_an_outage_of_an_hour_is_over_when_it_ends() -> None:
    crawl = crawled("503 for an hour")
    assert len([at for at in crawl.refusals if at < HOUR]) < 400  # not one request every half second
    after = [at for at in crawl.served if at >= 30 + HOUR]
    assert min(later - earlier for earlier, later in pairwise(after[45:60])) < PACE.interval / 0.9


def test_a_site_that_bans_an_address_is_asked_ever_more_rarely() -> None:
    crawl = crawled("403 for good after 20 s")
    assert crawl.slowest > 5.0
    assert not any(any(verdicts) for verdicts in crawl.blames.values())


@pytest.mark.parametrize("retry_after", [None, 5.0, 10.0, 30.0])
@pytest.mark.parametrize(("interval", "concurrency"), [(0.5, 4), (0.5, 1), (3.0, 1), (5.0, 4)])
def test_a_host_that_refuses_everything_for_half_an_hour_is_slowed_and_loses_no_page(
    retry_after: float | None, interval: float, concurrency: int
) -> None:
    begins = 30 * interval
    site = Site(lambda url, now: refused(429, retry_after) if begins <= now < 1800 else None)
    crawl = Crawl(site, 80, Pace(interval=interval, burst=1, concurrency=concurrency)).run()
    assert crawl.dead == set()
    assert crawl.slowest > 1.5
    assert len(crawl.refusals) < 150
    # Each request that is refused alone is found out by the next one, and all of them are refused.
    assert sum(any(verdicts) for verdicts in crawl.blames.values()) <= 2


def test_a_site_that_slows_down_when_it_is_loaded_is_asked_less_often() -> None:
    crawl = crawled("ever slower above 1/s")
    settled = crawl.sent[150:]
    assert (len(settled) - 1) / (settled[-1] - settled[0]) < 1.6


@pytest.mark.parametrize("length", [1, 5, 30, 200])
def test_fifty_normal_responses_bring_nine_tenths_of_the_pace_back(length: int) -> None:
    governor = Governor(HostRecord())
    governor.follow([PACE], SlowdownRules())
    for signal in [Signal.NORMAL] * 30 + [Signal.RATE_LIMITED] * length + [Signal.NORMAL] * 50:
        if governor.record_response(signal):
            governor.follow([PACE], SlowdownRules())
    assert governor.interval <= PACE.interval / 0.9


if __name__ == "__main__":
    print(table())
