"""Size and seeds of a test that is different each time: a new seed for each run, after those that have failed."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = float(os.environ.get("CHAOS_SIZE", "0.05"))  # 1: what `make chaos` does
FAILED_SEEDS = Path(__file__).parents[3] / ".cache" / "chaos"  # one file per scenario, one seed per line


def seeds(scenario: str) -> list[int | None]:
    """Return the seeds of a scenario: `CHAOS_SEED`, or those that failed before, then a new one (None)."""
    if "CHAOS_SEED" in os.environ:
        return [int(os.environ["CHAOS_SEED"])]
    kept = FAILED_SEEDS / scenario
    return [*map(int, kept.read_text().split() if kept.exists() else ()), None]


def drawn(seed: int | None) -> int:
    """Draw a new seed; not while tests are collected, which every process of a run does for itself."""
    return random.SystemRandom().randrange(1_000_000) if seed is None else seed


@contextmanager
def kept_if_it_fails(scenario: str, seed: int) -> Iterator[None]:
    """Show a seed with a failure, and replay it first from then on: until it passes."""
    print(f"CHAOS_SEED={seed}")
    try:
        yield
    except BaseException:
        _keep(scenario, {seed}, but=set())
        raise
    _keep(scenario, set(), but={seed})


def _keep(scenario: str, more: set[int], *, but: set[int]) -> None:
    kept = FAILED_SEEDS / scenario
    failed = set(map(int, kept.read_text().split())) if kept.exists() else set()
    FAILED_SEEDS.mkdir(parents=True, exist_ok=True)
    kept.write_text("".join(f"{seed}\n" for seed in sorted((failed | more) - but)))
