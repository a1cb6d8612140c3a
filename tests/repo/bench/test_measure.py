"""What a command costs, by commands whose cost is known."""

import sys

from bench.measure import run

BURN = "import time\nwhile time.process_time() < 0.3: pass"


def test_the_time_of_children_and_of_orphans_is_counted() -> None:
    parent = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}])
subprocess.Popen([sys.executable, "-c", {BURN!r}], start_new_session=True)
"""
    cost = run([sys.executable, "-c", parent], env={}, timeout=60)

    assert cost.cpu_s >= 0.6
    assert cost.exit_code == 0


def test_the_memory_of_all_processes_is_summed() -> None:
    hold = "import time; kept = bytearray(50_000_000); time.sleep(1)"
    parent = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {hold!r}])
kept = bytearray(50_000_000)
child.wait()
"""
    cost = run([sys.executable, "-c", parent], env={}, timeout=60)

    assert 100_000_000 < cost.peak_bytes < 200_000_000


def test_a_command_that_takes_too_long_is_ended() -> None:
    cost = run([sys.executable, "-c", "import time; time.sleep(60)"], env={}, timeout=0.2)

    assert cost.exit_code == -9


def test_it_runs_on_the_cores_it_is_given() -> None:
    check = "import os, sys; sys.exit(os.sched_getaffinity(0) != {0})"

    assert run([sys.executable, "-c", check], cores=(0,), env={}, timeout=60).exit_code == 0
