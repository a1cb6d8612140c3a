"""Who is charged where no one can tell an exit that fails from a target that does."""

import math

import pytest

from shoal.model.exits.faults import Party, charge_doubt


@pytest.mark.parametrize(
    ("answered_since", "silent_s", "host_is_known", "hosts", "waited_s", "charged"),
    [
        (True, 0.0, True, 9, 1.0, Party.URL),  # the exit works, and this URL has met it twice
        (False, 1.0, True, 1, 0.0, Party.NO_ONE),  # a moment ago, both worked
        (False, 11.0, True, 1, 0.0, Party.EXIT),
        (False, math.inf, False, 1, 0.0, Party.EXIT),  # it has never worked
        (False, 30.0, False, 4, 0.0, Party.URL),  # a dead link, most likely
        (False, 30.0, False, 5, 0.0, Party.EXIT),  # too many dead links in a row
        (False, 61.0, False, 1, 0.0, Party.EXIT),
        (False, math.inf, True, 1, 7_200.0, Party.URL),  # the stated limit
    ],
)
def test_a_url_is_charged_only_if_the_exit_works_for_others(
    answered_since: bool, silent_s: float, host_is_known: bool, hosts: int, waited_s: float, charged: Party
) -> None:
    assert (
        charge_doubt(
            answered_since=answered_since,
            silent_s=silent_s,
            host_is_known=host_is_known,
            hosts=hosts,
            waited_s=waited_s,
        )
        is charged
    )
