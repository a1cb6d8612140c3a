"""`shoal init`: a project that works at once; existing files are never overwritten."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.command import surroundings

from shoal.cli.commands.run.init import TEMPLATES
from shoal.cli.input.settings_loader import merge_layers
from shoal.cli.main import run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_tests_of_a_new_project_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "books"]) == 0

    assert "Next: cd books && pytest" in capsys.readouterr().out
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio"],
        cwd=tmp_path / "books",
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_the_settings_of_a_new_project_are_valid(tmp_path: Path) -> None:
    assert run(["init"]) == 0
    created = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert created == set(TEMPLATES)
    assert merge_layers({}, environ={}, file=tmp_path / "shoal.toml").settings.crawl.rate == 2.0


def test_nothing_is_written_if_a_file_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shoal.toml").write_text("mine")
    assert run(["init"]) == 1
    assert "shoal.toml: already exists; name another folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["shoal.toml"]
    assert (tmp_path / "shoal.toml").read_text() == "mine"


def test_a_folder_that_cannot_be_created_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["init", "file/project"]) == 1
    assert "cannot create a project here" in capsys.readouterr().err
