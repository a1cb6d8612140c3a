"""What changes about the exits of a host that refuses addresses."""

import pytest

from shoal.model.adaptive_delay import Signal, Spike
from shoal.model.exits.choice import Rotation
from shoal.model.exits.refusal import HOLD_S, HostExits, change_exits

NOW = 1_000_000.0
REFUSED = Spike(Signal.FORBIDDEN, 5, 10)
KNOWN = HostExits(Rotation.REQUEST, since=NOW - 60, until=NOW + 60)
EXPIRED = HostExits(Rotation.REQUEST, since=NOW - 9_000, until=NOW)


@pytest.mark.parametrize(
    ("rule", "rotation", "expected"),
    [
        ("rotate", Rotation.TIMED, ("request", "")),
        ("rotate", Rotation.WORKER, ("request", "")),
        ("rotate", Rotation.REQUEST, ("worker", "")),
        ("isp", Rotation.REQUEST, ("worker", "isp")),
        ("isp", Rotation.TIMED, ("worker", "isp")),
    ],
)
def test_a_spike_of_403_changes_how_exits_are_chosen(
    rule: str, rotation: Rotation, expected: tuple[str, str]
) -> None:
    found = change_exits(REFUSED, None, rule=rule, rotation=rotation, now=NOW)
    assert found is not None
    assert (found.rotation, found.kind) == expected
    assert (found.since, found.until, found.refused, found.responses) == (NOW, NOW + HOLD_S, 5, 10)


@pytest.mark.parametrize("signal", [signal for signal in Signal if signal is not Signal.FORBIDDEN])
@pytest.mark.parametrize("before", [None, KNOWN])
def test_other_trouble_changes_nothing(signal: Signal, before: HostExits | None) -> None:
    spike = Spike(signal, 50, 100)
    assert change_exits(spike, before, rule="rotate", rotation=Rotation.TIMED, now=NOW) is before


def test_another_spike_makes_it_last_longer_and_its_end_is_the_end() -> None:
    longer = change_exits(REFUSED, KNOWN, rule="rotate", rotation=Rotation.TIMED, now=NOW)
    assert longer is not None
    assert (longer.since, longer.until) == (KNOWN.since, NOW + HOLD_S)
    assert change_exits(None, EXPIRED, rule="rotate", rotation=Rotation.TIMED, now=NOW) is None
    again = change_exits(REFUSED, EXPIRED, rule="rotate", rotation=Rotation.TIMED, now=NOW)
    assert again is not None
    assert again.since == NOW


@pytest.mark.parametrize("before", [None, KNOWN])
def test_off_changes_nothing(before: HostExits | None) -> None:
    assert change_exits(REFUSED, before, rule="off", rotation=Rotation.TIMED, now=NOW) is None
