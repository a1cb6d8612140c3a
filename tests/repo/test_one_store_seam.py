"""One place knows the kinds of store: `shoal.stores.open`. All other code asks a store what it can do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "shoal"
BACKENDS = ("shoal.stores.folder", "shoal.stores.redis")
# The client of a server parses its own addresses; it is below the stores and knows only one kind.
CLIENT = SOURCE / "redis_client"


def decisions(module: Path) -> Iterator[str]:
    """Yield each place in a module that distinguishes kinds of store."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.ImportFrom(module=str(name)) if name.startswith(BACKENDS):
                yield f"imports {name}"
            case ast.Import(names=names) if any(alias.name.startswith(BACKENDS) for alias in names):
                yield "imports a backend"
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in ("is_redis", "_is_redis"):
                yield f"uses {name}"
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id="store"), *_]):
                yield "tests the class of a store"
            case ast.Call(
                func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=str(text)), *_]
            ) if re.fullmatch(r"redis\S*|memory:.*", text):
                yield f"tests an address for {text!r}"
            case ast.Compare(comparators=[ast.Constant(value=str(text))]) if re.fullmatch(
                r"rediss?(\+\w+)?(://)?|memory:?", text
            ):
                yield f"compares an address with {text!r}"


def test_one_place_decides_which_kind_of_store_an_address_names() -> None:
    deciding = {
        str(module.relative_to(SOURCE)): found
        for module in sorted(SOURCE.rglob("*.py"))
        if module.parts[len(SOURCE.parts)] != "stores" and CLIENT not in module.parents
        if (found := [*decisions(module)])
    }
    assert deciding == {}
    [opening] = [module for module in (SOURCE / "stores").glob("*.py") if [*decisions(module)]]
    assert opening.name == "open.py"


def test_backends_do_not_choose_among_one_another() -> None:
    for folder, other in (("folder", "shoal.stores.redis"), ("contract", "shoal.stores.")):
        for module in (SOURCE / "stores" / folder).glob("*.py"):
            wrong = [found for found in decisions(module) if found.startswith(f"imports {other}")]
            assert not wrong, f"{module.name}: {wrong}"
