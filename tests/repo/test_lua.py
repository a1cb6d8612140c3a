"""The check of the Lua scripts: the scripts pass it, and it finds what it promises to find."""

import importlib.util
import os
import re

import pytest
from tests.repo.lua import SOURCE, all_scripts, findings

from shoal.redis_client import Script
from shoal.redis_client.key_names import LUA_CONSTANTS


@pytest.fixture(autouse=True)
def lua() -> None:
    if importlib.util.find_spec("lupa") is None:
        complaint = "the Lua scripts are NOT checked: lupa is missing; `make setup` installs it"
        if os.environ.get("CI"):
            pytest.fail(complaint)
        pytest.skip(complaint)


def faults_of(text: str) -> list[str]:
    return findings({"s": Script("s", text)})


def test_every_assembled_script_is_valid_and_defines_and_uses_its_names() -> None:
    assert findings(all_scripts()) == []


def test_the_scripts_of_all_packages_are_checked() -> None:
    assert {"frontier.lease", "bus.recover", "sinks.fleet.election", "stores.redis.page_quota"} <= set(
        all_scripts()
    )


def test_a_syntax_error_is_reported_with_its_line() -> None:
    assert faults_of("#!lua flags=allow-oom\nlocal x = = 1\n") == [
        "s.lua: line:2: unexpected symbol near '='"
    ]
    [fault] = faults_of("return 7 // 2")  # Lua 5.3
    assert "unexpected symbol" in fault
    [limit] = faults_of("\n".join(f"local n{number} = {number}" for number in range(201)))
    assert "200 local variables" in limit


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("return answer", "s.lua:1: answer is not defined"),
        ("local x = x\nreturn x", "s.lua:1: x is not defined"),
        ("for i = 1, 2 do redis.call(i) end\nreturn i", "s.lua:2: i is not defined"),
        ("if KEYS then local y = 1 return y end\nreturn y", "s.lua:2: y is not defined"),
        ("local function f(a) return 1 end\nreturn f()", "s.lua:1: a is never used"),
        ("local function f() return 1 end", "s.lua:1: f is never used"),
        ("local a, b = 1, 2\nreturn a", "s.lua:1: b is never used"),
        ("return {key = value}", "s.lua:1: value is not defined"),
    ],
)
def test_a_name_that_is_not_defined_or_never_used_is_reported(text: str, fault: str) -> None:
    assert faults_of(text) == [fault]


@pytest.mark.parametrize(
    "text",
    [
        "local t = {key = 1}\nreturn t.key",
        "local x\nx = 1\nreturn x",
        "local function f(n) return n > 0 and f(n - 1) end\nreturn f(3)",
        "for _, one in ipairs(KEYS) do redis.call(one) end",
        "local s = 'x -- y'  -- a comment\nreturn s",
        "local x = 1\nlocal function f() local x = x return x end\nreturn f()",
        "return pcall(function(a) return a end)",
    ],
)
def test_sound_scripts_have_no_fault(text: str) -> None:
    assert faults_of(text) == []


def test_a_function_of_a_fragment_may_be_unused_in_some_scripts_but_not_in_all() -> None:
    fragment = "local function f() return 1 end\n"
    assert findings({"a": Script("a", fragment), "b": Script("b", fragment + "return f()")}) == []


def test_no_lua_file_spells_a_key_that_packages_share() -> None:
    shared = {f"'{value}'" for value in LUA_CONSTANTS.values()}
    spelled = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in sorted(SOURCE.rglob("*.lua"))
        for text in re.findall(r"'[^'\n]*'", re.sub(r"--.*", "", path.read_text()))
        if text in shared
    ]
    assert spelled == []
