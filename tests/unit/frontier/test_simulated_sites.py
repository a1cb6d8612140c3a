"""Simulated sites in virtual time: what a host of each kind costs, and that its limit is kept."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from shoal.frontier.governor import Governor
from shoal.frontier.rules import HostRecord, is_refused_alone
from shoal.model.adaptive_delay import Signal, SlowdownRules, signal_of
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Retry, RetryRules, judge
from shoal.model.pace import Pace

PACE = Pace(interval=0.5, burst=1, concurrency=4)
Answer = Callable[[int, float], Failure | None]


def refused(status: int, retry_after: float | None = None) -> Failure:
    classes = {429: FailureClass.RATE_LIMITED, 403: FailureClass.IP_BLOCKED}
    return Failure(classes.get(status, FailureClass.TARGET_ERROR), str(status), status, retry_after)


@dataclass
class Bucket:
    """A site that serves `rate` requests per second, and refuses the rest."""

    rate: float
    retry_after: float | None = None
    tokens: float = 1.0
    filled_at: float = 0.0
    closed_until: float = 0.0
    too_early: int = 0  # requests before the end of a Retry-After

    def answer(self, url: int, now: float) -> Failure | None:
        self.too_early += now < self.closed_until - 1e-6
        self.tokens = min(self.tokens + (now - self.filled_at) * self.rate, 1.0)
        self.filled_at = now
        if self.tokens >= 1 - 1e-9:
            self.tokens -= 1
            return None
        if self.retry_after is not None:
            self.closed_until = now + self.retry_after
        return refused(429, self.retry_after)


@dataclass
class Crawl:
    """One worker that crawls a site, with the rules of the frontier."""

    answer: Answer
    pages: int
    governor: Governor = field(default_factory=lambda: Governor(HostRecord()))
    now: float = 0.0
    served: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    tries: dict[int, int] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    slowest: float = 1.0

    def run(self) -> "Crawl":
        self.governor.follow([PACE], SlowdownRules())
        queue = [(0, 0.0, url, 0, 0) for url in range(self.pages)]  # band, due, url, attempts, rests
        while queue:
            self.now = max(self.now, self.governor.ready, min(due for _, due, *_ in queue))
            entry = min(one for one in queue if one[1] <= self.now)
            queue.remove(entry)
            _, _, url, attempts, rests = entry
            self.governor.take(self.now, len(self.tries))
            self.governor.inflight -= 1
            self.tries[url] = self.tries.get(url, 0) + 1
            failure = self.answer(url, self.now)
            signal = Signal.NORMAL if failure is None else signal_of(failure)
            alone = is_refused_alone(
                signal,
                attempts=attempts,
                crashes=0,
                rests=rests,
                serves_others=self.governor.serves_others,
            )
            if signal is not None and not alone and self.governor.record_response(signal):
                self.governor.follow([PACE], SlowdownRules())
            self.slowest = max(self.slowest, self.governor.record.slow)
            if failure is None:
                self.served.append(self.now)
                continue
            self.refusals.append(self.now)
            outcome = judge(failure, attempt=attempts + 1, rests=rests, rules=RetryRules(), jitter=0.5)
            if isinstance(outcome, Dead):
                self.dead.add(url)
                continue
            assert isinstance(outcome, Retry)
            if outcome.rest > 0 and not alone:
                self.governor.rest(self.now + outcome.rest)
            charged = outcome.charged or alone
            attempts, rests = attempts + charged, rests + (not charged)
            queue.append((attempts, self.now + outcome.delay, url, attempts, rests))
        return self


def test_one_bad_url_costs_its_attempts_and_one_rest() -> None:
    crawl = Crawl(lambda url, now: refused(429, 5.0) if url == 7 else None, 60).run()
    assert crawl.served[-1] <= 29.5 * 1.1 + 5.0
    assert (crawl.dead, crawl.tries[7]) == ({7}, 6)
    assert crawl.slowest < 1.06


@pytest.mark.parametrize("status", [403, 500])
def test_a_bad_section_slows_its_host_in_proportion(status: int) -> None:
    crawl = Crawl(lambda url, now: refused(status) if url % 10 == 3 else None, 300).run()
    assert crawl.slowest <= 2.0
    assert len(crawl.dead) == 30
    assert set(crawl.tries.values()) == {1, 4}


@pytest.mark.parametrize("rate", [0.2, 0.5, 1.0, 1.8])
def test_a_limit_without_retry_after_is_approached_from_below_and_costs_no_page(rate: float) -> None:
    site = Bucket(rate)
    crawl = Crawl(site.answer, 600).run()
    assert crawl.dead == set()
    late = [at for at in crawl.refusals if at > 0.2 * crawl.now]
    assert len(late) < 0.06 * 600
    assert crawl.now < 1.35 * 600 / rate


@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_a_stated_wait_is_kept(rate: float) -> None:
    site = Bucket(rate, retry_after=10.0)
    crawl = Crawl(site.answer, 300).run()
    assert crawl.dead == set()
    assert site.too_early <= 0.02 * len(crawl.refusals) + 3


def test_an_outage_of_an_hour_is_over_when_it_ends() -> None:
    crawl = Crawl(lambda url, now: refused(503) if 30 <= now < 3630 else None, 400).run()
    after = [at for at in crawl.served if at >= 3630]
    assert len([at for at in crawl.refusals if at < 3630]) < 400  # not one request every half second
    intervals = [later - earlier for earlier, later in pairwise(after)]
    assert min(intervals[45:60]) < 0.5 / 0.9


def test_a_site_that_bans_an_address_is_asked_ever_more_rarely() -> None:
    crawl = Crawl(lambda url, now: refused(403) if now > 20 else None, 120).run()
    assert crawl.slowest > 5.0
    assert len(crawl.dead) == 120 - len(crawl.served)


@pytest.mark.parametrize("length", [1, 5, 30, 200])
def test_fifty_normal_responses_bring_nine_tenths_of_the_pace_back(length: int) -> None:
    governor = Governor(HostRecord())
    governor.follow([PACE], SlowdownRules())
    for signal in [Signal.NORMAL] * 30 + [Signal.RATE_LIMITED] * length + [Signal.NORMAL] * 50:
        if governor.record_response(signal):
            governor.follow([PACE], SlowdownRules())
    assert governor.interval <= PACE.interval / 0.9
