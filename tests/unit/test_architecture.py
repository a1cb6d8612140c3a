"""The folder listing is the architecture: imports point one way."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "shoal"

STATIONS = {"frontier", "fetch", "archive", "parse", "sinks", "proxy", "bus", "schedule", "fleet"}
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "stores": {"model"},
    "spider": {"model"},
    **{station: {"model", "stores", "spider"} for station in STATIONS},
    "runtime": {"model", "stores", "spider"} | STATIONS,
    "cli": {"model", "stores", "spider", "runtime"},
    "dashboard": {"model", "stores", "spider", "runtime"},
}
PACKAGES = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")


def imported_modules(module: Path) -> Iterator[str]:
    """Name what a module imports of Shoal, at its top or later, without the first word."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.ImportFrom(module=str(name), level=0):
                names = [f"{name}.{alias.name}" for alias in node.names]
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case _:
                continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "shoal" and rest:
                yield rest


def imported_packages(module: Path) -> Iterator[str]:
    return (name.split(".")[0] for name in imported_modules(module))


def test_every_package_has_a_place_in_the_order() -> None:
    assert set(PACKAGES) <= set(ALLOWED)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    allowed = ALLOWED[package] | {package, "__version__"}
    wrong = [
        f"{module.relative_to(SOURCE)} imports shoal.{other}"
        for module in sorted((SOURCE / package).rglob("*.py"))
        for other in imported_packages(module)
        if other not in allowed
    ]
    assert not wrong


def test_a_running_crawl_knows_nothing_of_what_is_built_around_it() -> None:
    runtime = SOURCE / "runtime"
    around = {path.name for path in runtime.iterdir() if path.is_dir()} - {"crawl", "__pycache__"}
    wrong = [
        f"{module.relative_to(SOURCE)} imports {name}"
        for module in sorted((runtime / "crawl").rglob("*.py"))
        for name in imported_modules(module)
        if name.startswith("runtime.") and name.split(".")[1] in around
    ]
    assert around
    assert not wrong


def test_no_two_folders_of_the_runtime_need_each_other() -> None:
    runtime = SOURCE / "runtime"
    folders = sorted(path.name for path in runtime.iterdir() if path.is_dir() and path.name != "__pycache__")

    def needed(folder: str) -> set[str]:
        modules = (runtime / folder).rglob("*.py")
        names = {name for module in modules for name in imported_modules(module)}
        return {name.split(".")[1] for name in names if name.startswith("runtime.")} & set(folders) - {folder}

    # Raises an error that names the circle.
    assert set(TopologicalSorter({folder: needed(folder) for folder in folders}).static_order()) == set(
        folders
    )


def test_what_the_folders_of_the_runtime_share_needs_none_that_is_built_on_it() -> None:
    wrong = [
        f"{module.name} imports {name}"
        for module in sorted((SOURCE / "runtime").glob("*.py"))
        for name in imported_modules(module)
        if name.startswith(("runtime.fleet.", "runtime.looking.", "runtime.gathered."))
    ]
    assert not wrong


def test_no_package_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "helpers", "common", "base", "misc"}
    assert not [path for path in SOURCE.rglob("*.py") if path.stem in drawers or path.parent.name in drawers]
