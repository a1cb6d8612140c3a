"""Stopping a crawl with signals: nothing is lost, and the same command resumes it."""

import os
import pty
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.e2e.command import (
    DONE,
    HASTY,
    PAGES,
    SHOAL,
    TIMEOUT,
    Ran,
    ended,
    records,
    shoal,
    started,
    surroundings,
)
from tests.e2e.command import QUICK as AT_ONCE
from tests.e2e.command_server import StartedCommand

OUT = ("--out", "items.jsonl")
QUICK = (*AT_ONCE, *OUT)
POLITE = ("--allow-private", "--rate", "10", *OUT)  # slow enough to be stopped on the way


def wait_for_items(folder: Path, process: StartedCommand) -> None:
    """Wait until the crawl has written something, so that there is something to lose."""
    items = folder / "items.jsonl"
    while not (items.exists() and items.stat().st_size):
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"ended with {process.wait(0.02)} before it had written anything")


def resumes_complete(shop: str, folder: Path) -> None:
    """The same command resumes the crawl to its end, and every page is stored once."""
    before = records(folder / "items.jsonl")
    rest = shoal("crawl", shop, *QUICK, "--json", cwd=folder, env=HASTY)
    assert rest.code == 0, rest.err
    assert rest.json["resumed"] is True
    urls = Counter(record["url"] for record in records(folder / "items.jsonl"))
    assert (len(urls), max(urls.values())) == (PAGES, 1)
    assert len(before) < PAGES


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_a_signal_drains_and_prints_how_to_resume(shop: str, tmp_path: Path, number: signal.Signals) -> None:
    with started("crawl", shop, *POLITE, cwd=tmp_path) as process:
        wait_for_items(tmp_path, process)
        process.send_signal(number)
        ran = ended(process)

    assert ran.code == 3
    [line] = [line for line in ran.err.splitlines() if number.name in line]
    assert "finishing requests in progress" in line
    assert line.endswith(f"resume with: shoal crawl {shop} {' '.join(POLITE)}")
    assert ran.out.startswith("Interrupted: ")
    resumes_complete(shop, tmp_path)


def test_a_second_signal_stops_at_once_and_still_loses_nothing(shop: str, tmp_path: Path) -> None:
    with started("crawl", shop, *POLITE, cwd=tmp_path) as process:
        wait_for_items(tmp_path, process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        ran = ended(process)

    assert ran.code == 3
    assert shoal("verify", cwd=tmp_path).code == 0
    resumes_complete(shop, tmp_path)


def test_sigkill_loses_nothing(shop: str, tmp_path: Path) -> None:
    with started("crawl", shop, *POLITE, cwd=tmp_path) as process:
        wait_for_items(tmp_path, process)
        process.kill()
        process.wait()
    with (tmp_path / "items.jsonl").open("ab") as items:
        items.write(b'{"torn')  # as if it had been killed in the middle of a line

    assert shoal("verify", cwd=tmp_path).code == 0
    rest = shoal("crawl", shop, *QUICK, "--json", cwd=tmp_path, env=HASTY)
    assert rest.code == 0, rest.err
    urls = Counter(record["url"] for record in records(tmp_path / "items.jsonl"))
    assert (len(urls), max(urls.values())) == (PAGES, 1)


def test_sigpipe_is_survived(shop: str, tmp_path: Path) -> None:
    with started("crawl", shop, *QUICK, "--json", cwd=tmp_path, env=HASTY) as process:
        wait_for_items(tmp_path, process)
        process.send_signal(signal.SIGPIPE)
        ran = ended(process)
    assert ran.code == 0
    assert ran.json["counts"]["done"] == DONE


def test_closed_standard_error_drains_the_crawl(shop: str, tmp_path: Path) -> None:
    with started("crawl", shop, *POLITE, "--rate", "4", cwd=tmp_path) as process:
        wait_for_items(tmp_path, process)
        assert process.stderr is not None
        process.stderr.close()
        process.stderr = None
        ran = ended(process)
    assert ran.code == 3
    resumes_complete(shop, tmp_path)


def test_closed_standard_output_ends_without_a_message(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, "--depth", "0", cwd=tmp_path)
    for command in (("status",), ("verify", "--json"), ("--help",)):
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.run(
            [*SHOAL, *command],
            cwd=tmp_path,
            env=surroundings(),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
        os.close(writing)
        assert (process.returncode, process.stderr) == (141, b"")


def on_a_terminal(*arguments: str, cwd: Path, env: dict[str, str]) -> Ran:
    """Run a command on a pseudo-terminal of 80 by 24."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [*SHOAL, *arguments],
        cwd=cwd,
        env=surroundings(env),
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
    )
    os.close(secondary)
    seen = b""
    try:
        while piece := os.read(primary, 65536):
            seen += piece
    except OSError:
        pass  # the other end was closed
    os.close(primary)
    return Ran(process.wait(TIMEOUT), seen.decode(), "")


def test_on_a_terminal_the_crawl_is_drawn_and_the_summary_stays(shop: str, tmp_path: Path) -> None:
    surroundings = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **HASTY}
    ran = on_a_terminal("crawl", shop, *QUICK, cwd=tmp_path, env=surroundings)

    assert ran.code == 0
    assert "\x1b[2K" in ran.out
    assert "pages/s" in ran.out
    assert "Finished: " in ran.out.rpartition("\x1b[2K")[2]


def test_a_dumb_terminal_gets_plain_lines(shop: str, tmp_path: Path) -> None:
    ran = on_a_terminal("crawl", shop, *QUICK, cwd=tmp_path, env={"TERM": "dumb", **HASTY})
    assert ran.code == 0
    assert "\x1b" not in ran.out
