"""Figures over time in rings of fixed size: every 2 s for ten minutes, every minute for a day. Pure."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence

from shoal.archive.fetch_log import LoggedAttempt
from shoal.model.api.live import HISTORY_FIELDS, HistoryFigures
from shoal.services.live.attempts import Burst, burst_of, ended_at

SAMPLE_S = 2.0
FINE = 300  # samples: ten minutes
COARSE_S = 60.0
COARSE = 1_440  # minutes: a day

Point = tuple[float | None, ...]
"""The values of `HISTORY_FIELDS`; the first one is the time."""


class HistoryRing:
    """The recent past of a store or of one crawl."""

    def __init__(self) -> None:
        self._fine: deque[tuple[Point, Counter[str]]] = deque(maxlen=FINE)
        self._coarse: deque[tuple[Point, Counter[str]]] = deque(maxlen=COARSE)
        self._minute: list[tuple[Point, Counter[str]]] = []

    def add(self, point: Point, failures: Counter[str]) -> None:
        """Add a sample; the ones of a whole minute become a coarse one."""
        assert len(point) == len(HISTORY_FIELDS)
        at = point[0] or 0.0
        if self._minute and at // COARSE_S != (self._minute[0][0][0] or 0.0) // COARSE_S:
            self._coarse.append(_merged(self._minute))
            self._minute = []
        self._fine.append((point, failures))
        self._minute.append((point, failures))

    @property
    def is_blank(self) -> bool:
        """Whether no sample has a figure; the store did not answer yet."""
        return all(value is None for point, _ in self._fine for value in point[1:])

    def history(self, span: str) -> HistoryFigures:
        """Return the last ten minutes (`live`) or the last day (`day`)."""
        if span == "live":
            since = (self._fine[-1][0][0] or 0.0) - FINE * SAMPLE_S if self._fine else 0.0
            kept, step = [one for one in self._fine if (one[0][0] or 0.0) > since], SAMPLE_S
        else:
            kept, step = [*self._coarse, *([_merged(self._minute)] if self._minute else [])], COARSE_S
        classes: Counter[str] = Counter()
        for _, failures in kept:
            classes.update(failures)
        return HistoryFigures(
            step_s=step,
            points=[_rounded(point) for point, _ in kept],
            failure_classes=dict(classes.most_common()),
        )


def past_points(rows: Sequence[LoggedAttempt], now: float) -> Iterator[tuple[Point, Counter[str]]]:
    """Yield the points of attempts of the last day: every 2 s in the last ten minutes, else every minute."""
    bins: dict[tuple[float, float], list[LoggedAttempt]] = {}
    for row in rows:
        ended = ended_at(row)
        if not now - COARSE * COARSE_S < ended <= now:
            continue
        step = SAMPLE_S if ended > now - FINE * SAMPLE_S else COARSE_S
        bins.setdefault((ended // step * step, step), []).append(row)
    starts = sorted(bins)
    for number, (start, step) in enumerate(starts):
        burst = burst_of(bins[start, step])
        yield logged_point(start, step, burst), burst.failures
        following = starts[number + 1][0] if number + 1 < len(starts) else now
        if following - start > 2 * step:  # a line must not lead across a pause
            yield logged_point(start + step, step, Burst()), Counter()


def logged_point(at: float, seconds: float, burst: Burst) -> Point:
    """Return what the attempts of some seconds say; the queues are not known."""
    return (
        at,
        burst.pages / seconds,
        sum(burst.failures.values()) / seconds,
        burst.bytes / seconds,
        burst.items / seconds,
        burst.percentile(0.5),
        burst.percentile(0.95),
        burst.percentile(0.99),
        *(None,) * 4,
    )


def _merged(samples: Sequence[tuple[Point, Counter[str]]]) -> tuple[Point, Counter[str]]:
    """Return the mean of samples; percentiles of latency become the highest, which no mean hides."""
    first = (samples[0][0][0] or 0.0) // COARSE_S * COARSE_S
    failures: Counter[str] = Counter()
    for _, counted in samples:
        failures.update(counted)
    columns = zip(*(point for point, _ in samples), strict=True)
    merged: list[float | None] = [first]
    for name, column in list(zip(HISTORY_FIELDS, columns, strict=True))[1:]:
        known = [value for value in column if value is not None]
        if not known:
            merged.append(None)
        elif name in ("p95_ms", "p99_ms"):
            merged.append(max(known))
        else:
            merged.append(sum(known) / len(known))
    return tuple(merged), failures


def _rounded(point: Point) -> list[float | None]:
    return [None if value is None else round(value, 3) for value in point]
