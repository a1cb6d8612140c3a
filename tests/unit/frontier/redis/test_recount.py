"""Recomputing counters from the data."""

from collections import Counter

from shoal.frontier.redis.repair.recount import Found, correct_counters

SOUND = {
    "accepted": 20, "waiting": 3, "delayed": 2, "leased": 4, "parsing": 1, "done": 4, "gone": 1, "dead": 3,
    "dead.timeout": 2, "dead.tls": 1, "purged": 1, "filtered": 2, "filtered.robots": 2, "retries": 9,
}  # fmt: skip
FOUND = Found(20, 3, 2, 4, 1, Counter(timeout=1, tls=1))


def test_correct_counters_are_not_changed() -> None:
    assert correct_counters(SOUND, FOUND) == {}
    assert correct_counters({}, Found(0)) == {}


def test_existing_requests_are_counted_and_the_rest_counts_as_done() -> None:
    told = {**SOUND, "waiting": 9, "leased": -1, "done": 2, "accepted": 7}
    assert correct_counters(told, FOUND) == {"waiting": 3, "leased": 4, "done": 4, "accepted": 20}


def test_more_ended_than_accepted_requests_are_reduced() -> None:
    assert correct_counters({**SOUND, "done": 7}, FOUND) == {"done": 4}
    told = {**SOUND, "gone": 30, "filtered": 3, "filtered.robots": 3}
    assert correct_counters(told, FOUND) == {"done": 0, "gone": 4}


def test_dead_letters_are_counted_by_their_own_class() -> None:
    told = {**SOUND, "dead": 4, "dead.timeout": 3, "accepted": 21}
    assert correct_counters(told, FOUND) == {"dead": 3, "dead.timeout": 2, "accepted": 20}
    assert correct_counters({**SOUND, "dead.tls": 5}, FOUND) == {
        "dead.tls": 1
    }  # the purged one was a timeout


def test_a_letter_that_exists_was_not_purged() -> None:
    """A purge counts letters first, and deletes them after."""
    told = {**SOUND, "purged": 3}
    assert correct_counters(told, FOUND) == {"purged": 1}


def test_a_bloom_filter_does_not_change_the_counters() -> None:
    uncounted = Found(None, 3, 2, 4, 1, Counter(timeout=1, tls=1))
    assert correct_counters(SOUND, uncounted) == {}
    assert correct_counters({**SOUND, "done": 5}, uncounted) == {"accepted": 21}
