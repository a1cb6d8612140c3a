"""The folder listing is the architecture: imports point one way."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "shoal"

STATIONS = {"frontier", "fetch", "archive", "parse", "sinks", "bus"}
SHARED = {"model", "spider", "redis_client", "sqlite_database", "child_process", "backends"}
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "spider": {"model"},
    "redis_client": {"model"},
    **dict.fromkeys(STATIONS, SHARED),
    "stores": SHARED | STATIONS,
    "engine": SHARED | STATIONS | {"stores"},
    "worker": SHARED | STATIONS | {"stores", "engine"},
    "services": SHARED | STATIONS | {"stores", "engine", "worker"},
    "server": {"model", "spider", "services"},
    "cli": {"model", "spider", "services", "server"},
    "python_api": {"model", "spider", "services"},
    "testing": SHARED | STATIONS,
    "dashboard": {"model", "spider", "services"},
}
MAX_MODULES = 22  # of one folder, its __init__ included
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
    allowed = ALLOWED[package] | {package, "values", "__version__"}
    wrong = [
        f"{module.relative_to(SOURCE)} imports shoal.{other}"
        for module in sorted((SOURCE / package).rglob("*.py"))
        for other in imported_packages(module)
        if other not in allowed
    ]
    assert not wrong


def folders() -> list[Path]:
    return sorted({module.parent for module in SOURCE.rglob("*.py")})


def test_no_two_folders_need_each_other() -> None:
    """Every folder is a node, at any level; the modules beside a subfolder belong to the folder above it."""
    known = {".".join(folder.relative_to(SOURCE).parts): folder for folder in folders()}

    def folder_of(module: str) -> str:
        parts = module.split(".")
        while parts and ".".join(parts) not in known:
            parts.pop()
        return ".".join(parts)

    graph = {
        name: {
            other
            for module in folder.glob("*.py")
            for other in map(folder_of, imported_modules(module))
            if other not in ("", name)
        }
        for name, folder in known.items()
        if name
    }
    # Raises an error that names the cycle.
    assert set(TopologicalSorter(graph).static_order()) == set(graph)


def test_no_folder_has_more_modules_than_a_reader_can_survey() -> None:
    sizes = {str(folder.relative_to(SOURCE)): len(list(folder.glob("*.py"))) for folder in folders()}
    sizes.pop("cli/commands")  # one module per command
    assert {name: size for name, size in sizes.items() if size > MAX_MODULES} == {}


def test_no_package_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "helpers", "common", "base", "misc"}
    assert not [path for path in SOURCE.rglob("*.py") if path.stem in drawers or path.parent.name in drawers]
