"""The pace of a host follows its responses: what each of them says, and how the interval is adapted.

Every response, or the lack of one, is a signal with a weight. A governor keeps the signals of the latest
responses, one digit each, the oldest first. The weighted share of trouble among them gives a throttle
P = 1 - e^(-share / threshold). Each trouble multiplies the interval by up to 1 + `STEP` * weight * P, more if
several follow one another. Trouble that came once, in one run, is over when it ends: each normal response
then adds `RECOVERY` of the configured pace. If it has come back within the window, the host has a limit: each
normal response then shortens the interval a little, the faster the more of them follow one another. So the
pace settles where about `threshold` of the responses are trouble: close to what the host allows, from below.
`find_spike` says which kind of trouble prevails, and which remedy fits it.

A request that is refused again while its neighbours are served says nothing about the host (`is_lone`). Its
refusal is not recorded here: it is charged to the request, and the host neither slows down nor rests for it.
What its earlier refusals have done to the host is taken back (`take_back`), once another request was served
after them: until then the host may refuse everything, and one refusal at most is charged.

The Redis scripts have the same digits, weights and rule (`hosts.lua`); `tests/contract` compares them.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Annotated

from shoal.model.failure import Failure, FailureClass


class Signal(IntEnum):
    """The digit under which a store keeps it."""

    NORMAL = 0
    FORBIDDEN = 1  # 403; stores of earlier versions have a 1 for every kind of block
    RATE_LIMITED = 2  # 429, or 503: the host says that it is asked too often, or cannot keep up
    CHALLENGED = 3
    TIMED_OUT = 4
    RESET = 5  # no connection, or it broke
    FAILED = 6  # any other 5xx
    LATE = 7  # a normal response that took much longer than usual


WEIGHTS = (0.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25)  # by signal

_BY_CLASS = {
    FailureClass.IP_BLOCKED: Signal.FORBIDDEN,
    FailureClass.RATE_LIMITED: Signal.RATE_LIMITED,
    FailureClass.ANTI_BOT: Signal.CHALLENGED,
    FailureClass.TIMEOUT: Signal.TIMED_OUT,
    FailureClass.CONNECT: Signal.RESET,
    FailureClass.TRUNCATED: Signal.RESET,
}
_NOT_OF_THE_HOST = frozenset({FailureClass.PROXY_ERROR, FailureClass.INTERNAL, FailureClass.POISON})


def signal_of(failure: Failure) -> Signal | None:
    """Return what a failed attempt says about its host; None: nothing."""
    if (signal := _BY_CLASS.get(failure.failure_class)) is not None:
        return signal
    if failure.failure_class is FailureClass.TARGET_ERROR:
        return Signal.RATE_LIMITED if failure.status == 503 else Signal.FAILED
    if failure.status > 0 and failure.failure_class not in _NOT_OF_THE_HOST:
        return Signal.NORMAL
    return None


def is_block(signal: Signal) -> bool:
    """Return whether a host has refused an attempt because of who asked, or how often."""
    return signal in (Signal.FORBIDDEN, Signal.RATE_LIMITED, Signal.CHALLENGED)


class HostRemedy(StrEnum):
    """What helps against a kind of trouble."""

    SLOW_DOWN = "slow_down"  # the governor does that
    ROTATE_EXIT = "rotate_exit"  # the address is refused: another exit, or a sticky one
    ESCALATE = "escalate"  # the client is refused: one that looks like a browser, or is one


REMEDIES: Mapping[Signal, HostRemedy] = {
    Signal.FORBIDDEN: HostRemedy.ROTATE_EXIT,
    Signal.RATE_LIMITED: HostRemedy.SLOW_DOWN,
    Signal.CHALLENGED: HostRemedy.ESCALATE,
    Signal.TIMED_OUT: HostRemedy.SLOW_DOWN,
    Signal.RESET: HostRemedy.SLOW_DOWN,
    Signal.FAILED: HostRemedy.SLOW_DOWN,
    Signal.LATE: HostRemedy.SLOW_DOWN,
}

SPIKE_RESPONSES = 100  # latest responses that are looked at
SPIKE_SHARE, SPIKE_COUNT = 0.1, 5  # of one kind of trouble among them, at least


@dataclass(frozen=True, slots=True)
class Spike:
    """One kind of trouble that many of a host's latest responses have in common."""

    signal: Signal
    count: int
    responses: int

    @property
    def kind(self) -> str:
        return self.signal.name.lower()

    @property
    def remedy(self) -> HostRemedy:
        return REMEDIES[self.signal]


def find_spike(window: str) -> Spike | None:
    """Return the kind of trouble that prevails in the latest responses; None: there is little."""
    latest = window[-SPIKE_RESPONSES:]
    signal = max(REMEDIES, key=lambda kind: latest.count(str(int(kind))))
    count = latest.count(str(int(signal)))
    if count < max(SPIKE_COUNT, SPIKE_SHARE * len(latest)):
        return None
    return Spike(signal, count, len(latest))


def count_signals(window: str) -> dict[str, int]:
    """Return how many of the latest responses were trouble, by kind."""
    counts = {signal.name.lower(): window.count(str(int(signal))) for signal in REMEDIES}
    return {kind: count for kind, count in counts.items() if count}


class TroubleWindows:
    """The signals of the latest responses, of hosts that are in trouble."""

    MAX_HOSTS = 1_000  # in trouble at once; of more, the one that was in trouble first is forgotten

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, str] = OrderedDict()

    def note(self, host: str, signal: Signal) -> Spike | None:
        """Add a response; return the kind of trouble that prevails, None: there is little."""
        known = self._hosts.get(host)
        if known is None and signal == Signal.NORMAL:
            return None
        responses = ((known or "") + str(int(signal)))[-SPIKE_RESPONSES:]
        if not responses.strip("0"):
            self.forget(host)
            return None
        self._hosts[host] = responses
        if len(self._hosts) > self.MAX_HOSTS:
            self._hosts.popitem(last=False)
        return find_spike(responses)

    def forget(self, host: str) -> None:
        self._hosts.pop(host, None)


class UsualTimes:
    """How long hosts usually take to respond, to tell which responses are late.

    A host's usual time follows its responses slowly: a host that stays slow is late for some 20 responses,
    and then that is its usual time.
    """

    MAX_HOSTS = 10_000
    AT_LEAST = 10  # responses before one can be late
    FACTOR, LEAST_S = 4.0, 1.0  # later than this many times the usual time, and than this
    DECAY = 0.05

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def is_late(self, host: str, seconds: float) -> bool:
        """Add the time that a response took; return whether it was late."""
        known = self._hosts.get(host)
        if known is None:
            self._hosts[host] = (1, seconds)
            if len(self._hosts) > self.MAX_HOSTS:
                self._hosts.popitem(last=False)
            return False
        count, usual = known
        late = count >= self.AT_LEAST and seconds > max(self.FACTOR * usual, self.LEAST_S)
        weight = max(self.DECAY, 1 / (count + 1))
        self._hosts[host] = (count + 1, usual + (seconds - usual) * weight)
        return late


FEW = 5  # responses that are not enough to tell whether a host serves other requests
NEIGHBOURS = 10  # latest responses of a host that tell whether it serves other requests
CHANCE = 0.01  # of being refused as often by a limit; below it, the request is at fault
RECOVERY = 0.02  # of the configured pace: what a normal response adds after trouble that came once
STEP = 0.05  # how much one trouble alone lengthens the interval
MAX_RUN = 5  # troubles in a row lengthen it by up to this many steps each
RECOVERY_RUN = 10  # normal responses in a row after which recovery has its nominal speed: STEP * threshold
MAX_NORMAL_RUN = 100  # up to which recovery gets faster
NEARLY_USUAL = 1.005  # a factor below this counts as 1


@dataclass(frozen=True, slots=True)
class SlowdownRules:
    """How to slow down on a host that turns requests away: 429, 503, 403, challenges, errors, delays."""

    threshold: Annotated[
        float,
        "Weighted share of trouble among a host's responses that slowing down settles at (docs/blocks.md).",
    ] = 0.02
    reach: Annotated[
        float,
        "How many times its own length the interval grows by, at most; after 429 and 503 only"
        " slowdown.ceiling limits it.",
    ] = 9.0
    at_least: Annotated[int, "Responses of a host before anything but 429 and 503 slows it down."] = 20
    window: Annotated[int, "Number of last responses of a host that are considered."] = 100
    floor: Annotated[float, "Seconds between requests to a host without a rate limit that blocks us."] = 0.1
    ceiling: Annotated[float, "Longest interval that slowing down leads to, in seconds."] = 60.0


def next_slow_factor(slow: float, window: str, interval: float, rules: SlowdownRules) -> float:
    """Return the factor for a host's interval after the last response in `window`.

    `slow` is the factor so far, and `interval` the interval that results from it.
    """
    signal = int(window[-1])
    weight = WEIGHTS[signal]
    if weight == 0:
        if trouble_runs(window) <= 1:
            slow = 1 / (1 / slow + RECOVERY)
            return 1.0 if slow < NEARLY_USUAL else round(slow, 6)
        run = min(len(window) - len(window.rstrip("0")), MAX_NORMAL_RUN)
        slow /= 1 + STEP * rules.threshold * run / RECOVERY_RUN
        return 1.0 if slow < NEARLY_USUAL else round(slow, 6)
    if (signal != Signal.RATE_LIMITED and len(window) < rules.at_least) or interval >= rules.ceiling:
        return slow
    run = min(len(window) - len(window.rstrip("1234567")), MAX_RUN)
    throttle = 1 - math.exp(-trouble_share(window) / rules.threshold)
    longer = round(slow * (1 + STEP * weight * throttle * run), 6)
    if signal == Signal.RATE_LIMITED:
        return longer
    # Where most requests are served, a section may be closed: the reach applies to the share that is not.
    closed = 1 - window.count("0") / len(window)
    return max(slow, min(longer, round(1 + rules.reach * closed, 6)))


def trouble_runs(window: str) -> int:
    """Return how often trouble began after a normal response."""
    return len(_BEGINS.findall(window))


_BEGINS = re.compile("0[1-7]")


def is_lone(signal: Signal, charged: int, rests: int, window: str) -> bool:
    """Return whether a request that has failed before fails alone, its host serving others.

    `charged` and `rests` count its earlier attempts, with and without a charge, as a first 429 or 503 is. A
    host that limits us refuses requests by chance, and serves the first one after a rest: a request that it
    refuses then is at fault, if no other met a 429 or 503 lately. So is one that chance would rarely refuse
    as often, and one that was found at fault before while no other is refused. Until another request is
    served after the latest refusal, the host may refuse everything: then a request is charged only if it was
    never charged before, and the next refusal of any request says that the host limits us.
    """
    latest = window[-NEIGHBOURS:]
    served = latest.count("0") + latest.count("7")
    if charged + rests == 0 or 2 * served < len(latest) or not latest:
        return False
    if signal != Signal.RATE_LIMITED:
        return True
    limited = window.count("2")
    if rests == 0 or limited == 0:
        return rests > 0 and charged > 0
    since = window.rpartition("2")[2]
    first = charged == 0 and served >= FEW and len(since) < FEW
    if limited <= rests and (first or (charged > 0 and _any_served(since))):
        return True
    refused = charged + rests
    return _any_served(since) and refused > 1 and (limited / len(window)) ** refused < CHANCE


def _any_served(responses: str) -> bool:
    return "0" in responses or "7" in responses


def take_back(slow: float, window: str, charged: int, rests: int) -> tuple[float, str]:
    """Return the slow factor and the responses of a host without refusals of a request that was at fault.

    The factor is taken back at the first charge; the responses stay until another request was served after
    them, and those of other requests stay.
    """
    limited = window.count("2")
    refusals = min(limited, rests)
    if charged == 0:
        slow = max(round(slow / (1 + STEP) ** refusals, 6), 1.0)
    if _any_served(window.rpartition("2")[2]) and (charged == 0 or limited <= rests):
        window = window.replace("2", "", refusals)
    return slow, window


def retry_delay(delay: float, rest: float, window: str, interval: float) -> float:
    """Return the delay of a request that was refused with 429 or 503, from the one that its failure asks for.

    It is the first one after the rest of its host; if too little is known of the host, others go first.
    """
    known = window[-NEIGHBOURS:].count("0") >= FEW
    return delay if known else max(delay, rest + FEW * interval)


def trouble_share(window: str) -> float:
    """Return the weighted share of trouble among responses."""
    return sum(WEIGHTS[code] * window.count(str(code)) for code in range(1, len(WEIGHTS))) / len(window)


def stretch_interval(interval: float, slow: float, rules: SlowdownRules) -> float:
    """Return a configured interval multiplied by a slow factor, up to the ceiling."""
    if slow <= 1.0:
        return interval
    return max(interval, min((interval or rules.floor) * slow, rules.ceiling))
