"""How a limit is divided among the shards that are asked at once."""

import pytest

from shoal.frontier.redis.frontier import share_out


@pytest.mark.parametrize(
    ("limit", "shards", "shares"),
    [(14, 1, [14]), (14, 4, [4, 4, 3, 3]), (3, 3, [1, 1, 1]), (16, 16, [1] * 16)],
)
def test_shards_together_lease_exactly_the_limit(limit: int, shards: int, shares: list[int]) -> None:
    assert share_out(limit, shards) == shares
    assert sum(shares) == limit
