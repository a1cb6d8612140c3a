"""The shape of JSON that a command prints: keys and types without values, compared with the one in a file.

A shape is written as JSON looks: an object with a shape per key, a list with the shape of what is in it, and the names of types for
scalars (`null|text`). A key that is not always there ends in `?`; `*` stands for keys that are data, such as a host or a path. A place that
can also be null has `|null` as another key or another entry.

SHAPES=write adds what is found to the files, so that a value that is null in one run and a number in another one has both;
delete a file first to take something away.
"""

import os
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parent / "shapes"
NULL = "|null"
_NAMES = {bool: "bool", int: "number", float: "number", str: "text", type(None): "null"}
_DATA = frozenset("/:.")  # in a key: it is a URL, a host, a path

Shape = Any


def shape_of(value: Any) -> Shape:
    """Return the shape of a value."""
    match value:
        case dict():
            shapes: dict[str, Shape] = {}
            for key, each in value.items():
                name, shape = "*" if _DATA & set(key) else key, shape_of(each)
                shapes[name] = merge(shapes[name], shape) if name in shapes else shape
            return shapes
        case list():
            return [reduce(merge, map(shape_of, value))] if value else []
        case _:
            return _NAMES[type(value)]


def merge(one: Shape, other: Shape) -> Shape:
    """Return the shape of values that have one shape or the other; keys that only one of them has become optional."""
    match one, other:
        case dict(), dict():
            return _merge_objects(one, other)
        case list(), list():
            inner = [each[0] for each in (one, other) if each and each[0] != NULL]
            null = [NULL] if NULL in (*one, *other) else []
            return [*([reduce(merge, inner)] if inner else []), *null]
        case str(), str():
            return "|".join(sorted({*one.split("|"), *other.split("|")}))
        case (dict() | list()) as structure, "null":
            return {**structure, NULL: "null"} if isinstance(structure, dict) else [*structure, NULL]
        case "null", dict() | list():
            return merge(other, one)
    raise AssertionError(f"a place that is {one} or {other}")


def fits(found: Shape, known: Shape) -> bool:
    """Return whether a shape is one of those that are known. What is in a list that was always empty is not known."""
    match found, known:
        case dict(), dict():
            always = {key for key in known if key not in ("*", NULL) and not key.endswith("?")}
            shapes = {key: known.get(key, known.get(f"{key}?")) for key in found}
            return always <= found.keys() and all(
                shape is not None and fits(found[key], shape) for key, shape in shapes.items()
            )
        case list(), list():
            return not found or not known or fits(found[0], known[0])
        case "null", dict() | list():
            return NULL in known
        case str(), str():
            return {*found.split("|")} <= {*known.split("|")}
    return False


def check_shape(name: str, value: Any) -> None:
    """Compare a value with the shape in a file; with SHAPES=write, add it to the file."""
    file, found = FOLDER / f"{name}.json", shape_of(value)
    if os.environ.get("SHAPES") == "write":
        known = msgspec.json.decode(file.read_bytes()) if file.exists() else found
        write_json(file, merge(known, found))
        return
    assert file.exists(), f"{name}: no shape yet; run this test with SHAPES=write and commit {file.name}"
    known = msgspec.json.decode(file.read_bytes())
    assert merge(known, found) == known, (
        f"{name}: another shape than in {file.name}; if that is meant: SHAPES=write"
    )


def write_json(file: Path, document: Any) -> None:
    """Write a document so that two versions can be compared line by line."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=1) + b"\n")


def _merge_objects(one: dict[str, Shape], other: dict[str, Shape]) -> dict[str, Shape]:
    merged: dict[str, Shape] = {}
    for name in {key.removesuffix("?") for key in (*one, *other)}:
        keys = (name, f"{name}?")
        shapes = [each[key] for each in (one, other) for key in keys if key in each]
        always = (name in one and name in other) or name in ("*", NULL)
        merged[name if always else f"{name}?"] = reduce(merge, shapes)
    return merged
