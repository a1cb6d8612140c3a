"""What differs between a crawl that one process owns and one that workers share."""

import math
from collections.abc import Callable

from tests.unit.engine.leased import lease

from shoal.engine.embedded import EXPIRY_MARGIN_S, EmbeddedOwnership
from shoal.engine.scope_state import ScopeState
from shoal.engine.shared import COUNT_EVERY_S, COUNT_WAITING_S, SharedOwnership
from shoal.fetch.cookies import Cookie, CookieJar
from shoal.model.crawl_totals import ClosedPattern, CrawlTotals
from shoal.model.page import ParseResult, ParseTask
from shoal.model.scope import Scope
from shoal.parse.pool import Poisoned


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class NoChildren:
    def configure(self, scope: Scope) -> None:
        pass

    def submit(self, task: ParseTask, on_answer: Callable[[ParseResult | Poisoned], None]) -> None:
        raise AssertionError("no page is parsed here")

    async def watch(self) -> None:
        raise AssertionError("no page is parsed here")


def scope(*hosts: str) -> ScopeState:
    return ScopeState(Scope(hosts=frozenset(hosts) or None), NoChildren())


def embedded(state: ScopeState | None = None) -> EmbeddedOwnership:
    return EmbeddedOwnership(CookieJar(), state or scope(), Clock())


def shared(
    state: ScopeState | None = None, totals: CrawlTotals | None = None, clock: Clock | None = None
) -> SharedOwnership:
    return SharedOwnership("w1", state or scope(), totals or CrawlTotals(), clock or Clock())


def test_an_owner_extends_leases_with_less_than_half_their_time_left() -> None:
    assert embedded().extend_before(60.0) == 130.0


def test_a_worker_extends_every_lease_because_deadlines_are_on_another_clock() -> None:
    assert lease(1, until=1e12).leased_until < shared().extend_before(60.0)


def test_an_owner_counts_a_lease_as_expired_shortly_before_its_deadline() -> None:
    assert embedded().expired_by() == 100.0 + EXPIRY_MARGIN_S


def test_a_worker_does_not_know_which_leases_have_expired() -> None:
    assert not lease(1, until=0.0).leased_until <= shared().expired_by()


def test_an_owner_settles_pages_early_and_a_worker_never() -> None:
    assert embedded().settle_after_stop < embedded().settle_after < math.inf
    assert shared().settle_after_stop == shared().settle_after == math.inf


def test_a_host_that_another_worker_has_queued_is_in_scope() -> None:
    state = scope("a.test")

    shared(state).record_lease(lease(1, host="b.test"))

    assert state.hosts == frozenset({"a.test", "b.test"})


def test_a_host_that_is_queued_does_not_widen_an_owners_scope() -> None:
    state = scope("a.test")

    embedded(state).record_lease(lease(1, host="b.test"))

    assert state.hosts == frozenset({"a.test"})


def test_an_owner_counts_what_is_left_whenever_it_holds_no_lease() -> None:
    assert embedded().may_be_finished(0.1)
    assert embedded().may_be_finished(math.inf)


def test_a_worker_counts_seldom_while_the_frontier_has_something_to_wait_for() -> None:
    """It may be a lease of another crawl, which ends much later."""
    clock = Clock()
    worker = shared(clock=clock)

    assert worker.may_be_finished(30.0)
    clock.now += COUNT_WAITING_S - 0.1
    assert not worker.may_be_finished(30.0)
    clock.now += 0.1
    assert worker.may_be_finished(30.0)


def test_a_worker_counts_at_most_once_per_second() -> None:
    clock = Clock()
    worker = shared(clock=clock)

    assert worker.may_be_finished(math.inf)
    assert not worker.may_be_finished(math.inf)
    clock.now += COUNT_EVERY_S
    assert worker.may_be_finished(math.inf)


def test_an_owner_saves_cookies_and_the_hosts_that_seeds_redirect_to() -> None:
    jar = CookieJar()
    jar.put([Cookie("s", "1", "a.test", "/", 80)], 0.0)

    assert EmbeddedOwnership(jar, scope("b.test", "a.test")).state() == {
        "cookies": jar.dump(),
        "hosts": b'["a.test","b.test"]',
    }
    assert set(embedded(scope()).state()) == {"cookies"}  # any host is in scope


def test_a_worker_saves_its_closed_patterns_under_its_name_and_no_counts() -> None:
    closed = {"a.test/n/0": ClosedPattern(5, "http://a.test/n/1")}
    totals = CrawlTotals(rejected=3, closed=closed)

    assert shared(totals=totals).state() == {"sums/w1": CrawlTotals(closed=closed).dump()}
