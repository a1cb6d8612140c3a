"""Adaptive slow-down: lengthen the interval between requests to a host that blocks us.

Of a host's last responses, the share that were blocks (403, 429, challenges) gives a throttle
P = 1 - e^(-share / threshold), and the interval is multiplied by 1 + P * reach. Below a minimum number of
responses the share is ignored.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Annotated


@dataclass(frozen=True, slots=True)
class SlowdownRules:
    """How to slow down on a host that responds with blocks (403, 429, challenges)."""

    threshold: Annotated[
        float,
        "Share of blocked responses at which the interval has grown by two thirds of reach.",
    ] = 0.02
    reach: Annotated[float, "How many times its own length the interval grows by, at most."] = 9.0
    at_least: Annotated[int, "Responses of a host before slowing down starts."] = 20
    window: Annotated[int, "Number of last responses of a host that are considered."] = 100
    floor: Annotated[float, "Seconds between requests to a host without a rate limit that blocks us."] = 0.1
    ceiling: Annotated[float, "Longest interval that slowing down leads to, in seconds."] = 60.0


def slow_factor(blocked: int, answers: int, rules: SlowdownRules) -> float:
    """Return the factor for the interval: 1.0 if there is no reason to slow down."""
    if answers < rules.at_least or blocked == 0:
        return 1.0
    return 1.0 + rules.reach * (1.0 - math.exp(-(blocked / answers) / rules.threshold))


def stretch_interval(interval: float, slow: float, rules: SlowdownRules) -> float:
    """Return a configured interval multiplied by a slow factor, within floor and ceiling."""
    if slow <= 1.0:
        return interval
    return max(interval, min(max(interval, rules.floor) * slow, rules.ceiling))


@dataclass(slots=True)
class ResponseWindow:
    """The last responses of one host: which of them were blocks."""

    rules: SlowdownRules
    _answers: deque[bool] = field(default_factory=deque)
    _blocked: int = 0

    def note(self, blocked: bool) -> float:
        """Add one response and return the new slow factor."""
        self._answers.append(blocked)
        self._blocked += blocked
        if len(self._answers) > self.rules.window:
            self._blocked -= self._answers.popleft()
        return slow_factor(self._blocked, len(self._answers), self.rules)

    @property
    def is_significant(self) -> bool:
        """Whether there were enough responses for the factor to be meaningful."""
        return len(self._answers) >= self.rules.at_least
