"""The Lua scripts as they go to a server: written to a folder, and checked there. The command is `make lua`.

python -m tests.repo.lua build/lua

Lua 5.1 itself (from the package lupa) compiles each script, so syntax and the limits of 200 locals and 60
upvalues per function are checked by the language that servers run. On top of that every name is resolved: one
that is neither local nor known to a server is reported, and so is a local that is never used. A function of a
fragment is reported only if no script uses it.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from shoal.frontier.redis.scripts import SCRIPTS, Scripts
from shoal.redis_client import Script
from shoal.redis_client.script import load_script

SOURCE = Path(__file__).parents[2] / "src"
FRONTIER = SOURCE / "shoal" / "frontier" / "redis" / "lua"

# What scripts may use of the environment that Redis and Valkey provide.
GLOBALS = {
    *("redis", "KEYS", "ARGV", "struct", "string", "table", "math"),
    *("error", "ipairs", "next", "pairs", "pcall", "tonumber", "tostring", "type", "unpack"),
}
_STATEMENTS = {
    *("break", "do", "else", "elseif", "end", "for", "function", "if", "local", "repeat", "return"),
    *("until", "while"),
}
_KEYWORDS = _STATEMENTS | {"and", "false", "in", "nil", "not", "or", "then", "true"}
_TOKENS = re.compile(
    r"--[^\n]*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\.{2,3}|[=~<>]=|[A-Za-z_]\w*|\d[\w.]*|\S"
)


def all_scripts() -> dict[str, Script]:
    """Return every script of the source tree, assembled, by package and name."""
    found = {}
    for name in dir(Scripts):
        if isinstance(script := getattr(SCRIPTS, name), Script):
            found[f"frontier.{name}"] = script
    for path in sorted((SOURCE / "shoal").rglob("*.lua")):
        if not path.is_relative_to(FRONTIER):
            package = ".".join(path.parent.relative_to(SOURCE).parts)
            found[f"{package.removeprefix('shoal.')}.{path.stem}"] = load_script(package, path.stem)
    return found


def findings(scripts: Mapping[str, Script]) -> list[str]:
    """Compile scripts and resolve their names; return one line per fault."""
    faults: list[str] = []
    unused: dict[str, str] = {}  # names of the outermost scope -> where one of them is declared
    used: set[str] = set()
    for name, script in scripts.items():
        if (error := _compile(script.source)) is not None:
            faults.append(f"{name}.lua: {error}")
            continue
        resolver = _Resolver(name)
        resolver.run(script.source)
        faults += resolver.faults
        for declared in resolver.outermost.values():
            if declared.uses or declared.name.startswith("_"):
                used.add(declared.name)
            else:
                unused.setdefault(declared.name, f"{name}.lua:{declared.line}")
    return faults + [f"{at}: {name} is never used" for name, at in unused.items() if name not in used]


def _compile(source: str) -> str | None:
    """Compile a script with Lua 5.1; return the error, if there is one."""
    from lupa.lua51 import LuaRuntime

    # A server skips the line with the flags, and keeps it for the numbers of lines.
    load = LuaRuntime(unpack_returned_tuples=True).eval("function(text) return loadstring(text, '=line') end")
    loaded = load(re.sub(r"\A#!.*", "", source))
    return loaded[1] if isinstance(loaded, tuple) else None


class _Token(NamedTuple):
    text: str
    line: int

    @property
    def is_name(self) -> bool:
        return (self.text[0].isalpha() or self.text[0] == "_") and self.text not in _KEYWORDS

    @property
    def ends_operand(self) -> bool:
        if self.text in _KEYWORDS:
            return self.text in ("end", "nil", "true", "false")
        return self.text[0].isalnum() or self.text[0] in "_'\")]}" or self.text == "..."


@dataclass(slots=True)
class _Local:
    name: str
    line: int
    uses: int = 0


@dataclass(slots=True)
class _Block:
    """A scope, or an open bracket, which has no names."""

    opened_by: str
    names: dict[str, _Local] = field(default_factory=dict)


class _Resolver:
    """Resolves the names of one script that Lua has compiled, so its syntax is known to be right."""

    def __init__(self, script: str) -> None:
        self.faults: list[str] = []
        self._script = script
        self._blocks = [_Block("script")]
        self._tokens: list[_Token] = []
        self._at = 0
        # Locals that come into scope after their statement, and the depth of blocks at which that ends.
        self._pending: list[tuple[int, list[_Local]]] = []
        self._loop: list[_Local] = []  # variables of a `for` whose `do` comes next

    @property
    def outermost(self) -> dict[str, _Local]:
        return self._blocks[0].names

    def run(self, source: str) -> None:
        for number, line in enumerate(source.splitlines(), start=1):
            if not line.startswith("#!"):
                self._tokens += [
                    _Token(text, number) for text in _TOKENS.findall(line) if not text.startswith("--")
                ]
        while self._at < len(self._tokens):
            self._end_statement()
            self._step(self._tokens[self._at])
        self._end_statement()

    def _step(self, token: _Token) -> None:
        self._at += 1
        match token.text:
            case "(" | "[" | "{":
                self._blocks.append(_Block(token.text))
            case ")" | "]" | "}":
                self._blocks.pop()
            case "do":
                self._open(token.text, self._loop)
                self._loop = []
            case "then" | "repeat":
                self._open(token.text)
            case "else" | "elseif" | "end" | "until":
                self._close()
                if token.text == "else":
                    self._open(token.text)
            case "function":
                self._open_function()
            case "for":
                self._loop = list(self._names())
            case "local":
                self._declare()
            case _ if token.is_name:
                self._use(token)

    def _open(self, by: str, names: list[_Local] | None = None) -> None:
        self._blocks.append(_Block(by, {one.name: one for one in names or ()}))

    def _close(self) -> None:
        for one in self._blocks.pop().names.values():
            if not one.uses and not one.name.startswith("_"):
                self.faults.append(f"{self._script}.lua:{one.line}: {one.name} is never used")

    def _open_function(self) -> None:
        while self._tokens[self._at].text != "(":  # the name of a function that is not local
            self._at += 1
        self._at += 1
        self._open("function", list(self._names()))
        self._at += 1  # the closing parenthesis

    def _declare(self) -> None:
        if self._tokens[self._at].text == "function":
            name = self._tokens[self._at + 1]
            self._blocks[-1].names[name.text] = _Local(name.text, name.line)
            self._at += 2
            self._open_function()
        else:
            self._pending.append((len(self._blocks), list(self._names())))

    def _names(self) -> Iterator[_Local]:
        """Read comma-separated names."""
        while self._tokens[self._at].is_name:
            token = self._tokens[self._at]
            yield _Local(token.text, token.line)
            self._at += 1
            if self._tokens[self._at].text != ",":
                return
            self._at += 1

    def _end_statement(self) -> None:
        """Bring pending locals into scope if a new statement starts here: `local x = x` uses the outer one."""
        if not self._pending or self._pending[-1][0] != len(self._blocks):
            return
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            starts = token.is_name or token.text in _STATEMENTS or token.text == ";"
            if not starts or not self._tokens[self._at - 1].ends_operand:
                return
        self._blocks[-1].names.update({one.name: one for one in self._pending.pop()[1]})

    def _use(self, token: _Token) -> None:
        if self._tokens[self._at - 2].text in (".", ":"):
            return  # a field
        following = self._tokens[self._at].text if self._at < len(self._tokens) else ""
        if self._blocks[-1].opened_by == "{" and following == "=":
            return  # a key of a table
        for block in reversed(self._blocks):
            if (found := block.names.get(token.text)) is not None:
                found.uses += 1
                return
        if token.text not in GLOBALS:
            self.faults.append(f"{self._script}.lua:{token.line}: {token.text} is not defined")


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    scripts = all_scripts()
    for name, script in scripts.items():
        (folder / f"{name}.lua").write_text(script.source)
    faults = [f"{folder}/{fault}" for fault in findings(scripts)]
    print(*faults, f"{len(scripts)} scripts in {folder}, {len(faults)} faults", sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
