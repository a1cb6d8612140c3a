"""From runs to figures: medians, ratios to the reference runs beside each run, and the goals they meet."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.rounds import Result

MB = 1_000_000
COLUMNS = (
    *("crawler", "runs", "pages", "pages/s", "ratio", "CPU ms/page", "ratio"),
    *("Redis ms/page", "peak MB", "once each"),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the verdict."""

    name: str
    value: float
    floor: float
    goal: float
    more_is_better: bool

    @property
    def verdict(self) -> str:
        def reaches(bar: float) -> bool:
            return self.value >= bar if self.more_is_better else self.value <= bar

        return "goal" if reaches(self.goal) else "floor" if reaches(self.floor) else "MISSED"


def ratios(results: Sequence[Result], crawler: str, of: Callable[[Result], float]) -> list[float]:
    """Divide each run of a crawler by the mean of the reference runs directly before and after it."""
    return [
        of(result) / ((of(results[nth - 1]) + of(results[nth + 1])) / 2)
        for nth, result in enumerate(results)
        if result.crawler == crawler
    ]


def figures(one_core: Sequence[Result], all_cores: Sequence[Result]) -> list[Figure]:
    """Compare what was run with the goals; a crawler that did not run gives no figure."""
    found = []
    if cpu := ratios(one_core, "shoal", _cpu):
        found.append(Figure("CPU per page / minimal", median(cpu), 3.0, 1.8, more_is_better=False))
    for name, crawler, peer, floor, goal in (
        ("pages/s / Scrapy, following links", "shoal", "scrapy", 12.0, 20.0),
        ("on Redis: pages/s / Shoal in a folder", "shoal, Redis", "shoal", 0.5, 0.7),
        ("on Redis: pages/s / scrapy-redis", "shoal, Redis", "scrapy-redis", 20.0, 35.0),
    ):
        fast, slow = ratios(one_core, crawler, _rate), ratios(one_core, peer, _rate)
        if fast and slow:
            found.append(Figure(name, median(fast) / median(slow), floor, goal, more_is_better=True))
    if whole := ratios(all_cores, "shoal", _rate):
        found.append(
            Figure("whole machine: pages/s / minimal x2", median(whole), 0.33, 0.5, more_is_better=True)
        )
    if ours := [result for result in (*one_core, *all_cores) if result.is_ours]:
        memory = max(result.peak_bytes for result in ours) / MB
        found.append(Figure("peak memory, all processes, MB", memory, 250, 150, more_is_better=False))
        unclean = sum(not result.exactly_once for result in ours)
        found.append(Figure("runs that were not exactly once", unclean, 0, 0, more_is_better=False))
    return found


def _cpu(result: Result) -> float:
    return result.cpu_ms_per_page


def _rate(result: Result) -> float:
    return result.pages_per_s


def show(console: Console, title: str, results: Sequence[Result]) -> None:
    """Print the medians of each crawler."""
    table = Table(title=title, title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "crawler" else "right")
    for name in _in_order(result.crawler for result in results):
        runs = [result for result in results if result.crawler == name]
        reference = name == results[0].crawler
        table.add_row(
            name,
            str(len(runs)),
            f"{median(run.pages for run in runs):,.0f}",
            f"{median(map(_rate, runs)):,.0f}",
            "1" if reference else f"{median(ratios(results, name, _rate)):.3f}",
            f"{median(map(_cpu, runs)):.3f}",
            "1" if reference else f"{median(ratios(results, name, _cpu)):.2f}",
            f"{median(1000 * run.redis_cpu_s / run.pages for run in runs):.3f}".replace("0.000", ""),
            f"{max(run.peak_bytes for run in runs) / MB:.0f}",
            _once(runs),
        )
    console.print(table)


def show_verdict(console: Console, found: Iterable[Figure]) -> None:
    """Print how the figures meet the goals."""
    table = Table(title="Shoal against its goals", title_justify="left")
    for column in ("measure", "value", "floor", "goal", "reached"):
        table.add_column(column, justify="left" if column == "measure" else "right")
    for figure in found:
        numbers = (figure.value, figure.floor, figure.goal)
        table.add_row(
            figure.name, *(f"{number:.2f}".removesuffix(".00") for number in numbers), figure.verdict
        )
    console.print(table)


def _once(runs: Sequence[Result]) -> str:
    if all(run.exactly_once for run in runs):
        return "yes"
    worst = max(runs, key=lambda run: run.fetches - run.items)
    return f"no: {worst.fetches} fetches, {worst.pages} pages, {worst.items} items, exit {worst.exit_code}"


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
