"""The leases that a process holds."""

import time

from shoal.frontier.redis.held_leases import HeldLeases
from shoal.frontier.redis.packing import Held, unpack_held

LATER = time.monotonic() + 3600.0
PAST = time.monotonic() - 1.0
ONE: Held = (10, 1, 111)
OTHER: Held = (11, 1, 222)


def test_a_lease_is_held_until_it_is_lost_and_used_until_its_deadline() -> None:
    held = HeldLeases()
    held.take(ONE, PAST)
    assert ONE in held  # a late settlement may still be accepted
    assert not held.holds(ONE)
    held.extend(ONE, LATER)
    assert held.holds(ONE)
    held.lose(ONE)
    assert ONE not in held
    assert not held.holds(ONE)


def test_a_deadline_never_moves_to_earlier() -> None:
    held = HeldLeases()
    held.take(ONE, LATER)
    held.extend(ONE, PAST)

    assert held.holds(ONE)


def test_expired_leases_are_dropped() -> None:
    held = HeldLeases()
    held.take(ONE, PAST)
    held.take(OTHER, LATER)
    held.drop_expired(before=PAST - 60.0)
    assert ONE in held
    held.drop_expired(before=PAST + 0.5)

    assert (ONE in held, OTHER in held) == (False, True)


def test_a_suspect_counts_outside_its_shard() -> None:
    held = HeldLeases()
    held.take(ONE, LATER)
    held.add_suspect(ONE, "w", "{shoal:01}")

    assert held.has_suspect("w", outside="{shoal:02}")
    assert not held.has_suspect("w", outside="{shoal:01}")
    assert not held.has_suspect("another", outside="{shoal:02}")
    held.lose(ONE)
    assert not held.has_suspect("w", outside="{shoal:02}")


def test_landed_requests_are_sent_to_a_shard_once() -> None:
    held = HeldLeases()
    held.add_landed("{shoal:01}", [ONE, OTHER])
    packed = held.take_landed("{shoal:01}")

    assert [unpack_held(packed[:20]), unpack_held(packed[20:])] == [ONE, OTHER]
    assert held.take_landed("{shoal:01}") == held.take_landed("{shoal:02}") == b""
