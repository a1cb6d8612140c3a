"""Names of keys: composed in two modules, the shared ones in one of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import shoal
from shoal.redis_client import key_names

SOURCE = Path(shoal.__file__).parent
COMPOSERS = {SOURCE / "redis_client" / "key_names.py", SOURCE / "frontier" / "redis" / "keys.py"}


def composed(path: Path) -> Iterator[str]:
    """Yield f-strings that append something to a tag, such as `f"{tag}:pages"`."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.JoinedStr(values=[ast.FormattedValue(value=tag), ast.Constant(value=str(text)), *_]) if (
                text.startswith(":") and "tag" in ast.unparse(tag)
            ):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
            case ast.BinOp(left=tag, op=ast.Add(), right=ast.Constant(value=str(text))) if text.startswith(
                ":"
            ) and "tag" in ast.unparse(tag):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"


def test_no_other_module_composes_a_key() -> None:
    modules = sorted(set(SOURCE.rglob("*.py")) - COMPOSERS)
    assert [line for path in modules for line in composed(path)] == []


def test_no_other_module_spells_the_end_of_a_shared_key() -> None:
    ends = {value for name, value in key_names.LUA_CONSTANTS.items() if name.endswith("_KEY")}
    ends |= {":news", ":workers", ":worker:", ":relay", ":meta"}
    spelled = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"
        for path in sorted(set(SOURCE.rglob("*.py")) - {SOURCE / "redis_client" / "key_names.py"})
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in ends
    ]
    assert spelled == []


def test_keys_are_named_as_in_stores_that_exist() -> None:
    tag, fleet = key_names.shard_tag("shoal", 7), key_names.fleet_tag("shoal")
    assert [
        key_names.store_meta("shoal"),
        key_names.shard_meta(tag),
        key_names.crawl_options(tag),
        key_names.pages(tag),
        key_names.consumer_gc(tag),
        key_names.items(tag, 3),
        key_names.written(tag, 3),
        key_names.writer(tag, 3),
        key_names.page_quota(tag, 3),
        key_names.crawl_records(fleet),
        key_names.news(fleet),
        key_names.workers(fleet),
        key_names.heartbeat(fleet, "w"),
        key_names.store_id(fleet),
        key_names.relay(fleet),
    ] == [
        "{shoal}:meta",
        "{shoal:07}:m",
        "{shoal:07}:c",
        "{shoal:07}:pages",
        "{shoal:07}:rollcall",
        "{shoal:07}:items:3",
        "{shoal:07}:written:3",
        "{shoal:07}:writer:3",
        "{shoal:07}:allowance:3",
        "{shoal:fleet}:crawls",
        "{shoal:fleet}:news",
        "{shoal:fleet}:workers",
        "{shoal:fleet}:worker:w",
        "{shoal:fleet}:id",
        "{shoal:fleet}:relay",
    ]
