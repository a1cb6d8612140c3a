"""The test helper that installs third-party packages."""

import os
import subprocess
import sys
from pathlib import Path

from tests.plugins import install_plugin

LOAD = """
from importlib.metadata import entry_points
for point in sorted(entry_points(group="shoal.sinks")):
    print(point.name, point.dist.name, point.load()())
"""


def test_an_installed_plugin_is_found_by_a_process_with_its_folder_on_the_path(tmp_path: Path) -> None:
    site = install_plugin(
        tmp_path,
        "shoal-one",
        {"shoal_one.py": "def sink(): return 1\n"},
        {"shoal.sinks": {".one": "shoal_one:sink"}},
    )
    same = install_plugin(
        tmp_path,
        "shoal-two",
        {"shoal_two/__init__.py": "", "shoal_two/sink.py": "def sink(): return 2\n"},
        {"shoal.sinks": {"two": "shoal_two.sink:sink"}, "shoal.buses": {"two": "shoal_two.sink:sink"}},
    )

    found = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert same == site
    assert found.stdout.splitlines() == [".one shoal-one 1", "two shoal-two 2"]
