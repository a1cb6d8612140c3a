"""What counters have to say, given what there is."""

from collections import Counter

from shoal.frontier.redis.repair.recount import Found, correct_counters

SOUND = {
    "accepted": 20, "waiting": 3, "delayed": 2, "leased": 4, "parsing": 1, "done": 4, "gone": 1, "dead": 3,
    "dead.timeout": 2, "dead.tls": 1, "purged": 1, "filtered": 2, "filtered.robots": 2, "retries": 9,
}  # fmt: skip
FOUND = Found(20, 3, 2, 4, 1, Counter(timeout=1, tls=1))


def test_of_sound_counters_none_is_changed() -> None:
    assert correct_counters(SOUND, FOUND) == {}
    assert correct_counters({}, Found(0)) == {}


def test_what_is_there_is_counted_and_the_rest_was_done() -> None:
    told = {**SOUND, "waiting": 9, "leased": -1, "done": 2, "accepted": 7}
    assert correct_counters(told, FOUND) == {"waiting": 3, "leased": 4, "done": 4, "accepted": 20}


def test_more_that_has_ended_than_was_accepted_was_counted_twice() -> None:
    assert correct_counters({**SOUND, "done": 7}, FOUND) == {"done": 4}
    told = {**SOUND, "gone": 30, "filtered": 3, "filtered.robots": 3}
    assert correct_counters(told, FOUND) == {"done": 0, "gone": 4}


def test_letters_say_themselves_of_which_class_they_are() -> None:
    told = {**SOUND, "dead": 4, "dead.timeout": 3, "accepted": 21}
    assert correct_counters(told, FOUND) == {"dead": 3, "dead.timeout": 2, "accepted": 20}
    assert correct_counters({**SOUND, "dead.tls": 5}, FOUND) == {
        "dead.tls": 1
    }  # the one thrown away was a timeout


def test_a_letter_that_is_there_was_not_thrown_away() -> None:
    """A purge counts what it throws away, and then throws it away."""
    told = {**SOUND, "purged": 3}
    assert correct_counters(told, FOUND) == {"purged": 1}


def test_an_approximate_seen_set_has_no_say() -> None:
    uncounted = Found(None, 3, 2, 4, 1, Counter(timeout=1, tls=1))
    assert correct_counters(SOUND, uncounted) == {}
    assert correct_counters({**SOUND, "done": 5}, uncounted) == {"accepted": 21}
