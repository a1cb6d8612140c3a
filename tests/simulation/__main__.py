"""Run seeds of the simulation, and replay and shrink those that fail.

python -m tests.simulation fleet --seeds 1-2000 --jobs 2
python -m tests.simulation fleet --seed 165 --trace -
python -m tests.simulation fleet --seed 165 --shrink
python -m tests.simulation --plan plan.json
python -m tests.simulation --mutant NAME
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from tests.simulation import mutants
from tests.simulation.clock import real_monotonic
from tests.simulation.plan import FLEET, FOLDER, Plan, plan_of
from tests.simulation.run import Result, confirm, encode, oracle_of, run_all, shrink

SHOWN_EVENTS = 40
CHECKED_TWICE = 10  # every such seed that passes is run again, to compare the traces


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.mutants:
        return _run_mutants(options)
    prepare: Callable[[], None] = mutants.MUTANTS[options.mutant].plant if options.mutant else lambda: None
    plans = _plans(options)
    if any(plan.scenario == FLEET for plan in plans):
        from tests.simulation.valkey import start_server

        start_server(jobs=options.jobs)
    if options.shrink:
        result = shrink(plans[0], prepare)
        _report(result, options)
        return bool(result.failure)
    if options.digests:
        for result in run_all(plans, jobs=options.jobs, prepare=prepare):
            print(result.plan.scenario, result.plan.seed, result.digest, flush=True)
        return 0
    return _run(plans, prepare, options)


def _run(plans: list[Plan], prepare: Callable[[], None], options: argparse.Namespace) -> int:
    began, failed, runs, virtual_s, requests = real_monotonic(), [], 0, 0.0, 0
    for result in run_all(plans, jobs=options.jobs, prepare=prepare):
        runs, virtual_s, requests = runs + 1, virtual_s + result.virtual_s, requests + result.requests
        if result.failure or (runs % CHECKED_TWICE == 0 and len(plans) > 1):
            result = confirm(result, prepare)
        if options.trace:
            _write_trace(result, options.trace)
        if result.failure:
            failed.append(result.plan.seed)
            _report(result, options)
            if options.first:
                break
    seconds = real_monotonic() - began
    print(
        f"{runs} seeds in {seconds:.0f} s ({runs / seconds:.2f} per second), {requests} requests,"
        f" {virtual_s / seconds:.0f} virtual seconds per second; {len(failed)} failed: {sorted(failed)[:20]}"
    )
    return bool(failed)


def _run_mutants(options: argparse.Namespace) -> int:
    """Run each planted fault until a seed fails; return 1 if one survives its budget."""
    chosen = list(mutants.MUTANTS) if options.mutants == ["all"] else options.mutants
    survived = []
    if any(mutants.MUTANTS[name].scenario == FLEET for name in chosen):
        from tests.simulation.valkey import start_server

        start_server(jobs=options.jobs)
    for name in chosen:
        mutant = mutants.MUTANTS[name]
        found = None
        for seeds in range(1, mutant.budget + 1, options.jobs):
            numbers = range(seeds, min(seeds + options.jobs, mutant.budget + 1))
            plans = [plan_of(mutant.scenario, seed) for seed in numbers]
            results = list(run_all(plans, jobs=options.jobs, prepare=mutant.plant))
            fallen = [one for one in results if one.failure and oracle_of(one).endswith(mutant.oracle)]
            found = min(fallen, key=lambda one: one.plan.seed, default=None)
            if found:
                break
        if found is None:
            survived.append(name)
            print(f"{name}: NOT FOUND in {mutant.budget} seeds", flush=True)
        else:
            print(f"{name}: seed {found.plan.seed} of {mutant.budget}: {found.failure[:160]}", flush=True)
    return bool(survived)


def _plans(options: argparse.Namespace) -> list[Plan]:
    if options.plan:
        text = options.plan if options.plan.startswith("{") else Path(options.plan).read_text()
        return [msgspec.json.decode(text, type=Plan)]
    return [plan_of(options.scenario, seed) for seed in options.seeds]


def _report(result: Result, options: argparse.Namespace) -> None:
    mutant = f" --mutant {options.mutant}" if options.mutant else ""
    print(f"\nFAILED {result.plan.scenario} seed {result.plan.seed} at commit {_commit()}{mutant}")
    print(f"  {result.failure}")
    print(f"  trace {result.digest}, {len(result.events)} events; the last ones:")
    for line in result.events[-SHOWN_EVENTS:]:
        print(f"    {line}")
    if options.verbose:
        print(result.where)
    print(f"  plan:   {encode(result.plan)}")
    print(
        f"  replay: python -m tests.simulation --plan '{encode(result.plan)}'{mutant} --trace -", flush=True
    )


def _write_trace(result: Result, target: str) -> None:
    text = "\n".join(result.events) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text)


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _seeds(text: str) -> list[int]:
    """Read seeds: one, FIRST-LAST, or several of them with commas."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scenario", nargs="?", choices=(FOLDER, FLEET), default=FOLDER)
    parser.add_argument(
        "--seeds", "--seed", type=_seeds, default=[1], help="one, FIRST-LAST, or a list of these with commas"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--plan", default="", help="run a plan (JSON, or a file with it) instead of seeds")
    parser.add_argument("--trace", default="", help="write the events to a file, or with - to the terminal")
    parser.add_argument("--shrink", action="store_true", help="look for the smallest plan that fails alike")
    parser.add_argument("--first", action="store_true", help="end with the first failure")
    parser.add_argument("--digests", action="store_true", help="print only the digest of each trace")
    parser.add_argument("--verbose", action="store_true", help="show tracebacks")
    parser.add_argument("--mutant", default="", choices=list(mutants.MUTANTS), help="plant a fault first")
    parser.add_argument(
        "--mutants", nargs="+", default=[], metavar="NAME", help="each within its budget; or all"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
