"""`shoal doctor` on this machine."""

import json
import resource
import sqlite3
from pathlib import Path

import pytest

from shoal.cli.main import run
from shoal.sqlite_database import APPLICATION_ID


def test_every_check_is_one_line_and_the_exit_code_follows_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["doctor", "--store", str(tmp_path / "store"), "--json"])
    found = json.loads(capsys.readouterr().out)
    grades = {check["name"]: check["grade"] for check in found["checks"]}

    assert {
        "python",
        "packages",
        "open files",
        "memory",
        "disk",
        "clock",
        "store",
        "parsing",
        "browser",
        "dns",
    } <= set(grades)
    assert grades["python"] == grades["clock"] == grades["store"] == "ok"
    assert found["ok"] is ("fail" not in grades.values())
    assert code == (0 if found["ok"] else 1)
    assert not (tmp_path / "store").exists()


def test_a_store_of_a_newer_version_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99;")
    connection.close()

    assert run(["doctor", "--store", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "FAIL  store" in out
    assert "written by a newer Shoal" in out


def test_a_low_limit_of_open_files_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        run(["doctor", "--store", str(tmp_path)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    out = capsys.readouterr().out
    assert "WARN  open files" in out
    assert "-> ulimit -n 4096" in out
