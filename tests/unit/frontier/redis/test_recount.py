"""Recomputing counters from the data."""

from collections import Counter
from dataclasses import replace

from shoal.frontier.redis.repair.recount import CorrectCounters, Found, correct_counters

SOUND = {
    "accepted": 20, "waiting": 3, "delayed": 2, "leased": 4, "parsing": 1, "done": 4, "gone": 1, "dead": 3,
    "dead.timeout": 2, "dead.tls": 1, "purged": 1, "filtered": 2, "filtered.robots": 2, "retries": 9,
}  # fmt: skip
FOUND = Found(20, 3, 2, 4, 1, Counter(timeout=1, tls=1), seen_size=20)


def corrected(recorded: dict[str, int], found: Found = FOUND) -> dict[str, int]:
    correct = correct_counters(recorded, found)
    assert (correct.lost, correct.forgotten) == (0, 0)
    return dict(correct.changes)


def test_correct_counters_are_not_changed() -> None:
    assert corrected(SOUND) == {}
    assert corrected({}, Found(0)) == {}


def test_existing_requests_are_counted_and_a_missing_one_is_lost_and_never_done() -> None:
    told = {**SOUND, "waiting": 9, "leased": -1, "done": 2, "accepted": 7}
    assert correct_counters(told, FOUND) == CorrectCounters(
        {"waiting": 3, "leased": 4, "accepted": 20}, lost=2
    )
    assert correct_counters(SOUND, replace(FOUND, waiting=1)) == CorrectCounters({"waiting": 1}, lost=2)
    assert correct_counters(SOUND, replace(FOUND, letters=Counter(tls=1))) == CorrectCounters(
        {"dead": 2, "dead.timeout": 1}, lost=1
    )
    assert correct_counters({}, replace(FOUND, waiting=0)).lost == 20 - 2 - 4 - 1 - 2


def test_a_second_repair_keeps_what_is_lost() -> None:
    told = {**SOUND, "waiting": 1}
    assert correct_counters(told, replace(FOUND, waiting=1, lost=2)) == CorrectCounters({}, lost=2)
    assert correct_counters(told, replace(FOUND, waiting=0, lost=2)) == CorrectCounters(
        {"waiting": 0}, lost=3
    )


def test_a_lost_request_that_is_found_again_is_not_lost_any_more() -> None:
    assert corrected({**SOUND, "waiting": 1}, replace(FOUND, lost=2)) == {"waiting": 3}


def test_requests_that_the_seen_set_has_forgotten_stay_accepted() -> None:
    assert correct_counters(SOUND, replace(FOUND, seen=12)) == CorrectCounters({}, forgotten=8)
    repaired_before = replace(FOUND, seen=12, seen_size=12 + 8)
    assert correct_counters(SOUND, repaired_before) == CorrectCounters({}, forgotten=8)


def test_a_wrong_counter_of_accepted_requests_loses_nothing() -> None:
    assert corrected({**SOUND, "accepted": 999}) == {"accepted": 20}
    assert corrected({**SOUND, "accepted": 3}) == {"accepted": 20}
    assert corrected(SOUND, replace(FOUND, seen_size=23)) == {}


def test_more_ended_than_accepted_requests_are_reduced() -> None:
    assert corrected({**SOUND, "done": 7}) == {"done": 4}
    told = {**SOUND, "gone": 30, "filtered": 3, "filtered.robots": 3}
    assert corrected(told) == {"done": 0, "gone": 4}


def test_dead_letters_are_counted_by_their_own_class() -> None:
    told = {**SOUND, "dead": 4, "dead.timeout": 3, "accepted": 21}
    assert corrected(told) == {"dead": 3, "dead.timeout": 2, "accepted": 20}
    assert corrected({**SOUND, "dead.tls": 5}) == {"dead.tls": 1}  # the purged one was a timeout


def test_a_letter_that_exists_was_not_purged() -> None:
    """A purge counts letters first, and deletes them after."""
    assert corrected({**SOUND, "purged": 3}) == {"purged": 1}


def test_a_bloom_filter_does_not_change_the_counters() -> None:
    uncounted = replace(FOUND, seen=None)
    assert corrected(SOUND, uncounted) == {}
    assert corrected({**SOUND, "done": 5}, uncounted) == {"accepted": 21}
    assert correct_counters({**SOUND, "done": 2}, uncounted) == CorrectCounters({}, lost=2)
