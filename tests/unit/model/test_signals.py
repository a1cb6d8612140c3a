"""What responses say about a host, and what helps."""

import pytest

from shoal.model.adaptive_delay import HostRemedy, Signal, Spike, UsualTimes, count_signals, find_spike


@pytest.mark.parametrize(
    ("window", "spike", "remedy"),
    [
        ("", None, None),
        ("0" * 100, None, None),
        ("1111", None, None),  # too few
        ("0" * 60 + "11111", None, None),  # too small a share
        ("11111", Spike(Signal.FORBIDDEN, 5, 5), HostRemedy.ROTATE_EXIT),
        ("0" * 80 + "3" * 20, Spike(Signal.CHALLENGED, 20, 100), HostRemedy.ESCALATE),
        ("3" * 20 + "0" * 20 + "2" * 30, Spike(Signal.RATE_LIMITED, 30, 70), HostRemedy.SLOW_DOWN),
        ("4" * 50 + "0" * 100, None, None),  # long ago
        ("5" * 9 + "0", Spike(Signal.RESET, 9, 10), HostRemedy.SLOW_DOWN),
    ],
)
def test_a_spike_names_the_trouble_that_prevails_and_its_remedy(
    window: str, spike: Spike | None, remedy: HostRemedy | None
) -> None:
    found = find_spike(window)
    assert found == spike
    assert (found and found.remedy) == remedy


def test_trouble_is_counted_by_kind() -> None:
    assert count_signals("00112") == {"forbidden": 2, "rate_limited": 1}
    assert count_signals("000") == {}


def test_a_response_is_late_if_it_takes_much_longer_than_usual() -> None:
    times = UsualTimes()
    assert not any(times.is_late("a.test", 0.2) for _ in range(30))
    assert not times.is_late("a.test", 0.9)  # less than a second
    assert times.is_late("a.test", 2.0)
    assert not times.is_late("b.test", 2.0)  # not known yet


def test_a_host_that_stays_slow_is_not_late_for_ever() -> None:
    times = UsualTimes()
    for _ in range(30):
        times.is_late("a.test", 0.2)
    late = [times.is_late("a.test", 2.0) for _ in range(30)]
    assert late[0]
    assert not late[-1]


def test_only_so_many_hosts_are_remembered() -> None:
    times = UsualTimes()
    for number in range(times.MAX_HOSTS + 5):
        times.is_late(f"{number}.test", 0.1)
    assert len(times._hosts) == times.MAX_HOSTS
