"""Token buckets: what is taken, when there is more, and that memory is bounded."""

import pytest

from shoal.server.access.rate_limit import Rate, RateLimiter, refilled


@pytest.mark.parametrize(
    ("level", "elapsed", "after"), [(0.0, 1.0, 2.0), (9.0, 5.0, 10.0), (5.0, -3.0, 5.0), (10.0, 0.0, 10.0)]
)
def test_a_bucket_fills_up_to_its_size(level: float, elapsed: float, after: float) -> None:
    assert refilled(level, elapsed, Rate(per_s=2.0, burst=10.0)) == after


def test_a_request_waits_until_the_bucket_holds_its_cost() -> None:
    limiter = RateLimiter(Rate(per_s=2.0, burst=4.0))
    assert [limiter.take("a", 1.0, 0.0) for _ in range(4)] == [0.0] * 4
    assert limiter.take("a", 1.0, 0.0) == 0.5
    assert limiter.take("b", 1.0, 0.0) == 0.0
    assert limiter.take("a", 1.0, 0.5) == 0.0
    assert limiter.take("a", 100.0, 60.0) == 0.0  # one that costs more than the bucket holds takes all of it


def test_keys_that_were_idle_longest_are_forgotten() -> None:
    limiter = RateLimiter(Rate(per_s=1.0, burst=1.0), max_keys=2)
    for key in ("a", "b", "c"):
        limiter.take(key, 1.0, 0.0)
    assert limiter.take("a", 1.0, 0.0) == 0.0  # forgotten: it begins again
    assert limiter.take("c", 1.0, 0.0) == 1.0
