"""Adaptive slow-down: how much longer the pause between requests gets when a host pushes back.

Over a window of a host's last answers, the share that were blocks (403, 429, challenges) gives a throttle
P = 1 - e^(-share / threshold); the interval is stretched by 1 + P * reach. Too few answers say nothing.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Annotated


@dataclass(frozen=True, slots=True)
class SlowdownRules:
    """How a host that answers with blocks (403, 429, challenges) is slowed down."""

    threshold: Annotated[
        float,
        "Share of blocked answers at which the pause between requests has grown by two thirds of reach.",
    ] = 0.02
    reach: Annotated[float, "By how many times its own length the pause grows, at most."] = 9.0
    at_least: Annotated[int, "Answers of a host before their share means anything."] = 20
    window: Annotated[int, "Answers of a host looked back on."] = 100
    floor: Annotated[float, "Seconds between requests to an unlimited host that pushes back."] = 0.1
    ceiling: Annotated[float, "Longest pause that slowing down makes, in seconds."] = 60.0


def factor(blocked: int, answers: int, rules: SlowdownRules) -> float:
    """Return what to multiply the interval by: 1.0 when nothing speaks for slowing down."""
    if answers < rules.at_least or blocked == 0:
        return 1.0
    return 1.0 + rules.reach * (1.0 - math.exp(-(blocked / answers) / rules.threshold))


def stretched(interval: float, slow: float, rules: SlowdownRules) -> float:
    """Apply a slow factor to a configured interval."""
    if slow <= 1.0:
        return interval
    return max(interval, min(max(interval, rules.floor) * slow, rules.ceiling))


@dataclass(slots=True)
class Window:
    """The last answers of one host."""

    rules: SlowdownRules
    _answers: deque[bool] = field(default_factory=deque)
    _blocked: int = 0

    def note(self, blocked: bool) -> float:
        """Take one answer in and return the new slow factor."""
        self._answers.append(blocked)
        self._blocked += blocked
        if len(self._answers) > self.rules.window:
            self._blocked -= self._answers.popleft()
        return factor(self._blocked, len(self._answers), self.rules)

    @property
    def speaks(self) -> bool:
        """Whether there were enough answers for the factor to mean anything."""
        return len(self._answers) >= self.rules.at_least
