"""What differs between a crawl that one process owns and one that workers share."""

import math

from tests.unit.engine.leased import lease

from shoal.engine.ownership import COUNT_EVERY, SOON, Owned, Shared
from shoal.engine.scope_state import ScopeState
from shoal.fetch.cookies import Cookie, CookieJar
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.scope import Scope


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class NoChildren:
    def configure(self, scope: Scope) -> None:
        pass


def border(*hosts: str) -> ScopeState:
    return ScopeState(Scope(hosts=frozenset(hosts) or None), NoChildren())


def owned(around: ScopeState | None = None) -> Owned:
    return Owned(CookieJar(), around or border(), Clock())


def shared(
    around: ScopeState | None = None, totals: CrawlTotals | None = None, clock: Clock | None = None
) -> Shared:
    return Shared("w1", around or border(), totals or CrawlTotals(), clock or Clock())


def test_an_owner_extends_what_has_less_than_half_its_time_left() -> None:
    assert owned().extend_before(60.0) == 130.0


def test_a_worker_extends_everything_because_the_deadlines_are_on_another_clock() -> None:
    assert lease(1, until=1e12).leased_until < shared().extend_before(60.0)


def test_an_owner_counts_a_lease_as_run_out_a_little_before_it_is() -> None:
    assert owned().run_out_by() == 100.0 + SOON


def test_a_worker_cannot_tell_which_leases_have_run_out() -> None:
    assert not lease(1, until=0.0).leased_until <= shared().run_out_by()


def test_an_owner_settles_pages_early_and_a_worker_never() -> None:
    assert owned().last_patience < owned().patience < math.inf
    assert shared().last_patience == shared().patience == math.inf


def test_a_host_that_another_worker_has_queued_is_in_scope() -> None:
    around = border("a.test")

    shared(around).took(lease(1, host="b.test"))

    assert around.hosts == frozenset({"a.test", "b.test"})


def test_a_host_that_is_queued_does_not_widen_an_owners_scope() -> None:
    around = border("a.test")

    owned(around).took(lease(1, host="b.test"))

    assert around.hosts == frozenset({"a.test"})


def test_an_owner_counts_what_is_left_whenever_nothing_is_out() -> None:
    assert owned().may_be_finished(0.1)
    assert owned().may_be_finished(math.inf)


def test_a_worker_does_not_count_while_there_is_anything_to_wait_for() -> None:
    assert not shared().may_be_finished(30.0)


def test_a_worker_counts_once_in_a_while() -> None:
    clock = Clock()
    worker = shared(clock=clock)

    assert worker.may_be_finished(math.inf)
    assert not worker.may_be_finished(math.inf)
    clock.now += COUNT_EVERY
    assert worker.may_be_finished(math.inf)


def test_an_owner_keeps_cookies_and_the_hosts_that_seeds_led_to() -> None:
    jar = CookieJar()
    jar.put([Cookie("s", "1", "a.test", "/", 80)], 0.0)

    assert Owned(jar, border("b.test", "a.test")).state() == {
        "cookies": jar.dump(),
        "hosts": b'["a.test","b.test"]',
    }
    assert set(owned(border()).state()) == {"cookies"}  # any host is in scope


def test_a_worker_keeps_what_it_has_counted_under_its_own_name() -> None:
    totals = CrawlTotals(rejected=3)

    assert shared(totals=totals).state() == {"sums/w1": totals.dump()}
