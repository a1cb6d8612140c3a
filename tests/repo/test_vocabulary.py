"""The words of the project are those of the glossary and of the field."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.repo import vocabulary

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "shoal"
PLACES = ("src", "docs", "README.md", "CONTRIBUTING.md", "examples", "deploy", "bench", "tests")


def is_checked(path: Path) -> bool:
    return path != Path(vocabulary.__file__)


@pytest.mark.parametrize("place", PLACES)
def test_no_retired_word_is_used(place: str) -> None:
    paths = [path for path in vocabulary.files([ROOT / place]) if is_checked(path)]
    assert [line for path in paths for line in vocabulary.findings(path)] == []


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if is_checked(path):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def test_a_public_class_name_means_one_class() -> None:
    defined = defaultdict(list)
    for name, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(name)
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


def test_functions_are_named_by_verbs_or_nouns() -> None:
    assert [
        f"{name}:{node.lineno}: {node.name}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.strip("_") in vocabulary.LONE_PARTICIPLES
    ] == []
