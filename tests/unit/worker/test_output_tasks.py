"""The terms for which a worker is elected to write an output."""

import pytest

from shoal.worker.output_tasks import term_for


@pytest.mark.parametrize(("lease_s", "term_s"), [(120.0, 15.0), (15.0, 15.0), (5.0, 5.0), (0.01, 3.0)])
def test_a_term_is_not_longer_than_a_lease_unless_that_is_very_short(lease_s: float, term_s: float) -> None:
    assert term_for(lease_s) == term_s
