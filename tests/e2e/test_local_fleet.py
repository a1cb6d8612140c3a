"""A whole fleet on one machine, in one command."""

import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from tests.e2e.command import DONE, HASTY, PAGES, QUICK, TIMEOUT, ended, records, shoal, started

FLEET = ("fleet", "-n", "2", "--out", "items.jsonl")
SLOW = ("--allow-private", "--rate", "4")


@pytest.mark.timeout(240)
def test_one_command_runs_a_fleet_and_resumes_after_an_interruption(shop: str, tmp_path: Path) -> None:
    with started(*FLEET, shop, *SLOW, "--json", cwd=tmp_path, env=HASTY) as fleet:
        family = _family(fleet.pid, workers=2)
        _until_some(tmp_path / "items.jsonl")
        fleet.send_signal(signal.SIGINT)
        interrupted = ended(fleet)
    assert interrupted.code == 3, interrupted.err
    assert interrupted.json["ending"] == "interrupted"
    _gone(family)

    again = shoal(*FLEET, shop, *QUICK, "--json", cwd=tmp_path, env=HASTY)
    assert again.code == 0, again.err
    assert (again.json["ending"], again.json["resumed"]) == ("finished", True)
    assert again.json["counts"]["done"] == DONE
    assert len({record["url"] for record in records(tmp_path / "items.jsonl")}) == PAGES
    assert len(records(tmp_path / "items.jsonl")) == PAGES


@pytest.mark.timeout(240)
def test_the_store_of_a_finished_fleet_can_be_inspected(shop: str, tmp_path: Path) -> None:
    with started(*FLEET, shop, *SLOW, "--quiet", cwd=tmp_path, env=HASTY) as fleet:
        _family(fleet.pid, workers=2)
        _until_some(tmp_path / "items.jsonl")
        beside = shoal("status", "--json", cwd=tmp_path)
        fleet.send_signal(signal.SIGINT)
        ended(fleet)
    assert beside.code == 0, beside.err
    assert (beside.json["store"], len(beside.json["workers"])) == ("shoal-data", 2)

    verified = shoal("verify", "--json", cwd=tmp_path)
    assert verified.code == 0, verified.err
    paused = shoal("pause", beside.json["crawls"][0]["crawl"], "--store", "shoal-data/valkey", cwd=tmp_path)
    assert paused.code == 0, paused.err
    [kept] = shoal("status", "--json", "--store", "shoal-data/valkey", cwd=tmp_path).json["crawls"]
    assert kept["paused"]


def test_an_embedded_crawl_takes_precedence_over_a_fleet_in_the_same_folder(
    shop: str, tmp_path: Path
) -> None:
    assert shoal(*FLEET, shop, *QUICK, "--crawl", "together", "--quiet", cwd=tmp_path, env=HASTY).code == 0
    assert shoal("crawl", shop, *QUICK, "--crawl", "alone", "--quiet", cwd=tmp_path).code == 0

    exported = shoal("export", "--store", "shoal-data/valkey", "--out", "again.jsonl", "--json", cwd=tmp_path)
    assert exported.code == 0, exported.err
    for store, name in (("shoal-data", "alone"), ("shoal-data/valkey", "together")):
        [crawl] = shoal("status", "--json", "--store", store, cwd=tmp_path).json["crawls"]
        assert crawl["crawl"] == name


@pytest.mark.timeout(240)
def test_no_process_outlives_a_fleet_that_is_killed(shop: str, tmp_path: Path) -> None:
    with started(*FLEET, shop, *SLOW, "--quiet", cwd=tmp_path) as fleet:
        family = _family(fleet.pid, workers=2)
        fleet.kill()
        fleet.wait()
    _gone(family)


@pytest.mark.timeout(240)
def test_a_worker_that_is_killed_is_started_again(shop: str, tmp_path: Path) -> None:
    short = {**HASTY, "SHOAL_CRAWL_LEASE": "5"}  # seconds until others have what the killed one had
    with started(*FLEET, shop, *SLOW, cwd=tmp_path, env=short) as fleet:
        family = _family(fleet.pid, workers=2)
        _until_some(tmp_path / "items.jsonl")
        victim = next(process for process in family if "worker" in process.cmdline())
        victim.kill()
        _gone([victim])
        again = _family(fleet.pid, workers=2)
        ran = ended(fleet)

    assert victim.pid not in {process.pid for process in again}
    assert ran.code == 0, ran.err
    assert re.search(r"shoal: worker [12] was killed by SIGKILL; restarting it in \S+ s", ran.err)
    assert len({record["url"] for record in records(tmp_path / "items.jsonl")}) == PAGES
    assert len(records(tmp_path / "items.jsonl")) == PAGES


@pytest.mark.timeout(240)
def test_a_fleet_whose_items_cannot_be_written_is_not_finished(shop: str, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text("of another program\n")
    ran = shoal(*FLEET, shop, *QUICK, "--quiet", cwd=tmp_path, env=HASTY)

    assert ran.code == 1
    assert "pages are in no output: see shoal-data/logs/worker-" in ran.complaint


def _family(pid: int, *, workers: int) -> list[psutil.Process]:
    """Wait for a server and its workers, and give every process that was started."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if sum(map(_is_worker, psutil.Process(pid).children())) == workers:
            family: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
            return family
        time.sleep(0.05)
    raise AssertionError("no workers")


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "worker" in process.cmdline()
    except psutil.Error:  # it has ended in between
        return False


def _until_some(items: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not (items.exists() and items.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _gone(family: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(family, timeout=TIMEOUT)
    assert alive == []
