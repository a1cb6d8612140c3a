"""Release notes come from the changelog, and workflow files are valid."""

import subprocess
import sys
from pathlib import Path

import pytest
from docs.making.release_notes import notes

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## 0.3.0 (unreleased)

- Later.

## 0.2.0 (2026-11-16)

- New: a thing.

## 0.1.0 (2026-10-01)

- First.
"""


def test_notes_are_the_section_of_the_tag() -> None:
    assert notes("v0.2.0", CHANGELOG, "0.2.0") == "- New: a thing."
    assert notes("v0.1.0", CHANGELOG, "0.1.0") == "- First."


@pytest.mark.parametrize(
    ("tag", "package", "message"),
    [
        ("v0.2.0", "0.1.0", "does not match"),
        ("v0.3.0", "0.3.0", "no dated section"),
        ("v9.9.9", "9.9.9", "no dated section"),
    ],
)
def test_a_tag_that_disagrees_is_refused(tag: str, package: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        notes(tag, CHANGELOG, package)


@pytest.mark.parametrize(
    "workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name
)
def test_workflows_fit_their_schema(workflow: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        str(workflow),
    ]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_workflows_call_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {line.partition(":")[0] for line in makefile.splitlines() if line and line[0].isalpha()}
    called = {
        word
        for workflow in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in workflow.read_text().splitlines()
        if "run: make " in line
        for word in line.partition("run: make ")[2].split()
    }
    assert called
    assert called <= targets | {"quick", "coverage"}
