"""Draw mutants, run tests on each, print those that no test notices and the share that is noticed."""

import argparse
import queue
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutation import lua_mutants, python_mutants, subjects
from tests.mutation.judge import Copy, Fate
from tests.mutation.mutant import Mutant
from tests.mutation.reach import Reach

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/shoal"
FOLDER = ROOT / ".cache/mutation"
EQUIVALENT = Path(__file__).with_name("equivalent.tsv")
MOST = 100  # unit tests, and tests of contracts, that are tried on one mutant
CONTROL_EVERY = 25  # mutants between two runs without a change, which must pass


class Verdict(NamedTuple):
    mutant: Mutant
    fate: Fate


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    drawn = draw(options.seed, options.count, only=options.only)
    if options.mutant:
        drawn = [each for each in every_mutant("") if each.name == options.mutant]
        if not drawn:
            print(f"mutation: no mutant is named {options.mutant!r}")
            return 2
    if options.list:
        for mutant in drawn:
            print(mutant.name, mutant.before, sep="\t")
        return 0
    reach = Reach.measure(ROOT, FOLDER, processes=options.jobs)
    began = time.monotonic()
    verdicts = list(_judge(drawn, reach, jobs=options.jobs, seed=options.seed))
    _report(verdicts, seed=options.seed, minutes=(time.monotonic() - began) / 60)
    return 0


def every_mutant(only: str) -> list[Mutant]:
    """Return all mutants of the code that keeps the promises."""
    found: list[Mutant] = []
    for file in subjects.files(SOURCE, only):
        every_place = lua_mutants.every_place if file.suffix == ".lua" else python_mutants.every_place
        found += every_place(str(file.relative_to(ROOT)), file.read_bytes())
    return found


def draw(seed: int, count: int, *, only: str = "") -> list[Mutant]:
    """Return a seeded sample with at most one mutant per line."""
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in every_mutant(only):
        by_line[mutant.path, mutant.line].append(mutant)
    chance = random.Random(seed)
    lines = sorted(by_line)
    return [chance.choice(by_line[line]) for line in chance.sample(lines, min(count, len(lines)))]


def _judge(mutants: Sequence[Mutant], reach: Reach, *, jobs: int, seed: int) -> Iterator[Verdict]:
    """Yield a verdict per mutant, as each is reached, from `jobs` copies of the repository."""
    waiting: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
    ended: queue.SimpleQueue[Verdict | BaseException] = queue.SimpleQueue()
    for numbered in enumerate(mutants):
        waiting.put(numbered)

    def work(job: int) -> None:
        try:
            copy = Copy(ROOT, FOLDER / f"copy-{job}")
            while not waiting.empty():
                number, mutant = waiting.get_nowait()
                near = _sample(reach.of(mutant.path, mutant.line), random.Random(f"{seed}{mutant.name}"))
                if number % CONTROL_EVERY == 0 and copy.fate(None, near) is Fate.NOTICED:
                    print(f"mutation: the tests of {mutant.name} fail without a change", file=sys.stderr)
                fate = copy.fate(mutant, near)
                if fate is not Fate.NOTICED and (wider := subjects.wider(mutant.path, ROOT)):
                    fate = copy.fate(mutant, wider)
                ended.put(Verdict(mutant, fate))
        except BaseException as error:
            ended.put(error)
            raise

    workers = [threading.Thread(target=work, args=(job,), daemon=True) for job in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in mutants:
        verdict = ended.get()
        if isinstance(verdict, BaseException):
            raise verdict
        print(verdict.fate, verdict.mutant.name, verdict.mutant.before, sep="\t", flush=True)
        yield verdict


def _sample(tests: list[str], chance: random.Random) -> list[str]:
    contracts = [test for test in tests if test.startswith("tests/contract")]
    units = [test for test in tests if not test.startswith("tests/contract")]
    return units[:MOST] + chance.sample(contracts, min(MOST, len(contracts)))


def equivalent(mutant: Mutant) -> bool:
    """Return whether the mutant is one of those that make no difference, by the text of its line."""
    rows = [line.split("\t") for line in EQUIVALENT.read_text().splitlines()[1:]]
    return any(
        (path, kind, before) == (mutant.path, mutant.kind, mutant.before) for path, kind, before, *_ in rows
    )


def _report(verdicts: Sequence[Verdict], *, seed: int, minutes: float) -> None:
    counted = [each for each in verdicts if each.fate is Fate.NOTICED or not equivalent(each.mutant)]
    noticed = sum(each.fate is Fate.NOTICED for each in counted)
    print(f"\nmutation: {len(verdicts)} mutants with seed {seed} in {minutes:.0f} minutes")
    print(f"  {len(verdicts) - len(counted)} of them make no difference (equivalent.tsv)")
    print(f"  {noticed} of the other {len(counted)} are noticed: {noticed / max(1, len(counted)):.1%}")
    for each in counted:
        if each.fate is not Fate.NOTICED:
            print(f"  {each.fate}: {each.mutant.name}: {each.mutant.before}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="of the sample")
    parser.add_argument("--count", type=int, default=500, help="mutants")
    parser.add_argument("--only", default="", help="files below src/shoal whose path starts with this")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at the same time")
    parser.add_argument("--mutant", default="", help="this one alone, by the name that a run prints")
    parser.add_argument("--list", action="store_true", help="print the sample and end")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
