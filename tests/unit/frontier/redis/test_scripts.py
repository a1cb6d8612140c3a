"""The text of the scripts, as it goes to a server."""

import re
from pathlib import Path

import pytest

from shoal.frontier import redis
from shoal.frontier.redis.scripts import SCRIPTS, Scripts
from shoal.redis_client import Script
from shoal.redis_client.script import inline_constants

LUA = Path(redis.__file__).parent / "lua"
BY_NAME = {name: script for name in dir(Scripts) if isinstance(script := getattr(SCRIPTS, name), Script)}


def test_constants_are_inlined() -> None:
    source = """\
local RANK, NAME = 4398046511104, 1  -- 2^42, and the first field
local ENTRY = '>I6HB'
local function rank(host) return host[NAME] * RANK end
return pack(ENTRY, rank(KEYS))
"""
    assert [line for line in inline_constants(source).splitlines() if line] == [
        "local function rank(host) return host[1] * 4398046511104 end",
        "return pack('>I6HB', rank(KEYS))",
    ]


def test_strings_and_tables_are_not_inlined() -> None:
    source = """\
local GONE, LIMIT = 3, 10
local PAYLOAD = {[GONE] = 'LIMIT'}
return call('ZRANGE', 'LIMIT', LIMIT)
"""
    assert inline_constants(source).split("\n")[1:3] == [
        "local PAYLOAD = {[3] = 'LIMIT'}",
        "return call('ZRANGE', 'LIMIT', 10)",
    ]


def test_a_script_is_assembled_once() -> None:
    scripts = Scripts()
    assert scripts.lease is scripts.lease
    assert "settle" not in vars(scripts)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_script_uses_no_constant_that_it_does_not_declare(name: str) -> None:
    code = re.sub(r"'[^']*'", "''", BY_NAME[name].source)
    declared = {word for names in re.findall(r"local ([A-Z_, ]+) =", code) for word in names.split(", ")}
    assert set(re.findall(r"\b[A-Z][A-Z_]+\b", code)) <= declared | {"KEYS", "ARGV"}


def test_every_file_has_a_header_and_is_part_of_a_script() -> None:
    for path in LUA.rglob("*.lua"):
        assert path.read_text().startswith(f"-- {path.name}: ")
    used = set()

    class Noted(Scripts):
        def fragment(self, name: str) -> str:
            used.add(name)
            return super().fragment(name)

    noted = Noted()
    assert {getattr(noted, name).name for name in BY_NAME} == {path.stem for path in LUA.glob("*.lua")}
    assert used == {path.stem for path in (LUA / "fragments").glob("*.lua")}
