"""Figures of the documentation name the command that produces them, and the commit that they were measured at."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text()
MEASURED = re.compile(r"[Mm]easured at commit `[0-9a-f]{7,}` on \d{4}-\d\d-\d\d with\s+`([^`]+)`")

sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", PERFORMANCE, flags=re.MULTILINE)[1:]}


def has_figures(section: str) -> bool:
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return any(re.search(r"\d (?:µs|ms|MB|MiB|s)\b|\| \**[\d.,]+\** \|", row) for row in rows)


def test_some_sections_have_figures() -> None:
    assert sum(map(has_figures, sections.values())) >= 4


@pytest.mark.parametrize("title", [title for title, text in sections.items() if has_figures(text)])
def test_figures_name_their_commit_and_a_command_that_exists(title: str) -> None:
    commands = MEASURED.findall(sections[title])
    assert commands, (
        f"docs/performance.md, {title}: say 'Measured at commit `...` on YYYY-MM-DD with `command`'"
    )
    for command in commands:
        assert exists(command), command


def exists(command: str) -> bool:
    match command.split():
        case ["make", target]:
            return (
                re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
                is not None
            )
        case ["python", "-m", module, *_]:
            path = ROOT / module.replace(".", "/")
            return path.with_suffix(".py").exists() or (path / "__main__.py").exists()
        case ["python", script, *_]:
            return (ROOT / script).exists()
    return False


def test_the_figures_of_the_readme_are_those_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text()
    table = readme[readme.index("## Speed") : readme.index("## Everyday commands")]
    [commit] = re.findall(r"commit `([0-9a-f]{7,})`", table)
    assert f"`{commit}`" in sections["Results"]
    figures = re.findall(
        r"[\d.,]*\d(?= ms|\*\*|\s\|)", "".join(re.findall(r"^\|.*pages.*$|^\| .*$", table, re.MULTILINE)[1:])
    )
    assert figures
    for figure in figures:
        assert figure in sections["Results"], figure


def test_the_python_versions_of_the_package_are_those_that_the_documentation_names() -> None:
    classifiers = re.findall(
        r"Programming Language :: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text()
    )
    page = (ROOT / "docs" / "compatibility.md").read_text()
    section = page[page.index("## Python and platforms") : page.index("## Stores")]
    assert classifiers == re.findall(r"\b3\.\d+\b(?!\.)", section.partition(" on Linux")[0])
    for version in classifiers[1:]:
        assert re.search(rf"\b{re.escape(version)}\.\d+\b.* run last on \d{{4}}-\d\d-\d\d", section), version
