"""Runs the command of the simulation for tests, in a separate process: it replaces the clock of its process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent


def simulate(*arguments: str, hash_seed: str = "0") -> str:
    """Run the command; return what it prints, or fail with it."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def digests(scenario: str, seeds: str, *, hash_seed: str) -> list[str]:
    """Return the digest of the trace of each seed."""
    return simulate(scenario, "--seeds", seeds, "--digests", hash_seed=hash_seed).splitlines()


def without(compiler: str, find_server: Callable[[], str]) -> str:
    """Return what the simulation of a fleet lacks on this machine; empty: nothing."""
    if shutil.which(compiler) is None:
        return f"{compiler}, which builds the clock of the simulated store"
    try:
        return "" if Path(find_server()).exists() else "Valkey"
    except (ImportError, StopIteration):
        return "Valkey"
