"""A fixed interval beside intervals that follow changes, on a simulated site: `python -m bench.recheck`.

A thousand pages over sixty days: 5 % change every six hours on average, 15 % every three days, 80 % every
sixty. Both ways may send as many requests per day as there are pages. A generation begins every hour. The
random numbers are always the same.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from shoal.model.generations.page_history import PageHistory, first_check
from shoal.model.generations.recheck import RecheckRules, draw_line

HOUR, DAY = 3_600.0, 86_400.0
PAGES, DAYS = 1_000, 60
KINDS = ((0.05, 6 * HOUR), (0.15, 3 * DAY), (0.80, 60 * DAY))  # share of the pages, mean time between changes
START = 1_700_000_000.0  # epoch seconds

Choose = Callable[[float, dict[int, PageHistory]], list[int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    requests: int = 0
    changes: int = 0  # of all pages
    seen: int = 0  # versions of pages that a request has found
    late_s: float = 0.0  # seconds from a change to the request that found it, summed up

    @property
    def mean_late_h(self) -> float:
        return self.late_s / max(self.seen, 1) / HOUR


def change_times(seed: int = 1) -> list[list[float]]:
    """Return when each page changes."""
    rng = random.Random(seed)
    found = []
    for number in range(PAGES):
        share, mean = number / PAGES, KINDS[-1][1]
        for part, gap in KINDS:
            if share < part:
                mean = gap
                break
            share -= part
        at, times = START, []
        while (at := at + rng.expovariate(1 / mean)) < START + DAYS * DAY:
            times.append(at)
        found.append(times)
    return found


def simulate(choose: Choose, rules: RecheckRules, changes: list[list[float]]) -> Outcome:
    """Check pages hour after hour; `choose` names those of an hour."""
    pages = {number: first_check(START, result=None, status=200) for number in range(PAGES)}
    position = [0] * PAGES  # changes of each page before its last check
    total = Outcome(changes=sum(map(len, changes)))
    for hour in range(1, DAYS * 24 + 1):
        now = START + hour * HOUR
        for number in choose(now, pages):
            times, first = changes[number], position[number]
            while position[number] < len(times) and times[position[number]] <= now:
                position[number] += 1
            changed = position[number] > first
            if changed:
                total = replace(
                    total, seen=total.seen + 1, late_s=total.late_s + now - times[position[number] - 1]
                )
            interval = rules.after_check(pages[number], now, changed=changed)
            pages[number] = pages[number].checked(
                now, changed=changed, result=None, status=200, interval_s=interval
            )
            total = replace(total, requests=total.requests + 1)
    return total


def fixed(now: float, pages: dict[int, PageHistory]) -> list[int]:
    """Choose the pages whose last request is longest ago: each page once a day."""
    hour = round((now - START) / HOUR)
    first, last = (hour - 1) * PAGES // 24, hour * PAGES // 24
    return [number % PAGES for number in range(first, last)]


def adaptive(now: float, pages: dict[int, PageHistory], rules: RecheckRules = RecheckRules()) -> list[int]:  # noqa: B008
    """Choose as many pages as `fixed` does, by the line of a generation."""
    line = draw_line(pages.items(), now, rules, budget=len(fixed(now, pages)))
    return [number for number, history in pages.items() if line.is_due(number, history)]


def compare() -> dict[str, Outcome]:
    changes, rules = change_times(), RecheckRules()
    return {
        "every page once a day": simulate(fixed, rules, changes),
        "adaptive": simulate(adaptive, rules, changes),
    }


def main() -> None:
    print(f"{'':24}{'requests':>10}{'changes':>10}{'seen':>8}{'share':>8}{'mean delay':>13}")
    for name, found in compare().items():
        print(
            f"{name:24}{found.requests:>10,}{found.changes:>10,}{found.seen:>8,}"
            f"{found.seen / found.changes:>8.0%}{found.mean_late_h:>11.1f} h"
        )


if __name__ == "__main__":
    main()
