"""What a process knows of its own leases."""

import time

from shoal.frontier.redis.held_leases import HeldLeases
from shoal.frontier.redis.packing import Held, unpack_held

LATER = time.monotonic() + 3600.0
PAST = time.monotonic() - 1.0
ONE: Held = (10, 1, 111)
OTHER: Held = (11, 1, 222)


def test_a_lease_is_held_until_it_is_lost_and_used_until_its_deadline() -> None:
    hand = HeldLeases()
    hand.take(ONE, PAST)
    assert ONE in hand  # a late settlement may still be accepted
    assert not hand.holds(ONE)
    hand.extend(ONE, LATER)
    assert hand.holds(ONE)
    hand.lose(ONE)
    assert ONE not in hand
    assert not hand.holds(ONE)


def test_a_deadline_never_comes_nearer() -> None:
    hand = HeldLeases()
    hand.take(ONE, LATER)
    hand.extend(ONE, PAST)

    assert hand.holds(ONE)


def test_leases_that_nobody_settled_are_forgotten_in_time() -> None:
    hand = HeldLeases()
    hand.take(ONE, PAST)
    hand.take(OTHER, LATER)
    hand.forget(before=PAST - 60.0)
    assert ONE in hand
    hand.forget(before=PAST + 0.5)

    assert (ONE in hand, OTHER in hand) == (False, True)


def test_a_suspect_counts_beside_every_shard_but_its_own() -> None:
    hand = HeldLeases()
    hand.take(ONE, LATER)
    hand.suspect(ONE, "w", "{shoal:01}")

    assert hand.has_suspect("w", beside="{shoal:02}")
    assert not hand.has_suspect("w", beside="{shoal:01}")
    assert not hand.has_suspect("somebody else", beside="{shoal:02}")
    hand.lose(ONE)
    assert not hand.has_suspect("w", beside="{shoal:02}")


def test_a_shard_is_told_once_what_has_landed() -> None:
    hand = HeldLeases()
    hand.land("{shoal:01}", [ONE, OTHER])
    packed = hand.take_landed("{shoal:01}")

    assert [unpack_held(packed[:20]), unpack_held(packed[20:])] == [ONE, OTHER]
    assert hand.take_landed("{shoal:01}") == hand.take_landed("{shoal:02}") == b""
