"""Where Shoal's time goes: py-spy over all of its processes during one crawl, as collapsed stacks."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers import Job, shoal_command
from bench.site import CACHE

PYSPY = "py-spy==0.4.3"
RATE = 100  # samples per second; py-spy stops a process for each, so more would disturb
SHOWN = 30


def record(console: Console, url: str, out: Path, *, redis: str = "") -> int:
    """Crawl once under py-spy, write the stacks to `out` and print the functions that cost most."""
    with tempfile.TemporaryDirectory(prefix="bench-profile-") as folder:
        command = shoal_command(Job(url, Path(folder), redis))
        spy = [_pyspy(), "record", "--subprocesses", "--format", "raw", "--rate", str(RATE)]
        spied = [*spy, "--output", str(out.absolute()), "--", sys.executable, *command]
        code = subprocess.run(spied, cwd=folder, check=False).returncode
    if code == 0:
        for process, stacks in _by_process(out.read_text().splitlines()).items():
            console.print(_top(process, stacks))
        console.print(f"collapsed stacks (for speedscope or flamegraph.pl): {out}")
    return code


Stacks = list[tuple[list[str], int]]


def _by_process(lines: list[str]) -> dict[str, Stacks]:
    """Group stacks by the line of their process, which py-spy puts below those of its parents."""
    processes: dict[str, Stacks] = {}
    for line in lines:
        stack, _, samples = line.rpartition(" ")
        frames = stack.split(";")
        depth = sum(frame.startswith("process ") for frame in frames)
        process = frames[depth - 1] if depth else "process"
        processes.setdefault(process, []).append((frames[depth:] or ["(no Python frame)"], int(samples)))
    return processes


def _top(process: str, stacks: Stacks) -> Table:
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for frames, samples in stacks:
        names = [frame.rpartition(":")[0] or frame for frame in frames]
        own[names[-1]] += samples
        below.update(dict.fromkeys(names, samples))
    total = sum(samples for _, samples in stacks)
    table = Table(title=f"{process[:80]} ({total / RATE:.1f} s sampled)", title_justify="left")
    for column in ("own %", "with callees %", "function"):
        table.add_column(column, justify="left" if column == "function" else "right", overflow="fold")
    for name, samples in own.most_common(SHOWN):
        table.add_row(f"{100 * samples / total:.1f}", f"{100 * below[name] / total:.1f}", name)
    return table


def _pyspy() -> str:
    """Find py-spy, or install it into a separate environment."""
    if found := shutil.which("py-spy"):
        return found
    folder = CACHE / "profile-venv"
    program = folder / "bin" / "py-spy"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", PYSPY], check=True)
    return os.fspath(program)
