"""Lua scripts: assembling their text, and running them by hash.

A script is assembled from Lua files and constants (`assemble`). Constants (`local RANK = 4398046511104`) are
inlined: every use of the name is replaced by its value. A Lua function has room for 200 local variables, and
a number in the text costs no lookup. `key_names.LUA_CONSTANTS` is available to every script the same way.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Final

from shoal.redis_client.connection import Argument
from shoal.redis_client.errors import CallFailed, Remedy, ScriptFault
from shoal.redis_client.key_names import LUA_CONSTANTS, shard_meta
from shoal.redis_client.servers import Server

ALLOW_OOM = "#!lua flags=allow-oom\n"  # runs on a full server too
DENY_OOM = "#!lua\n"  # rejected by a server that has reached maxmemory

_CONSTANTS = re.compile(r"^local ([A-Z][A-Z_, ]+) = (.+?)(?: +--.*)?$", re.MULTILINE)
_LITERAL = re.compile(r"-?[\d.]+|'[^']*'")
_WORDS = re.compile(r"'[^']*'|--.*|\b[A-Z][A-Z_]+\b")


@dataclass(frozen=True)
class Script:
    """A Lua script. Servers identify it by the SHA-1 of its text."""

    name: str
    source: str

    @cached_property
    def sha(self) -> str:
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


class _Epoch:
    """The type of `EPOCH`."""


EPOCH: Final = _Epoch()
"""As a script argument: replaced by the run id of the server process that executes the call."""

ScriptArgument = Argument | _Epoch


def assemble(name: str, texts: Sequence[str], *, header: str = ALLOW_OOM) -> Script:
    """Concatenate Lua texts into one script, with constants inlined."""
    return Script(name, header + inline_constants("\n".join(texts), LUA_CONSTANTS))


def load_script(package: str, name: str) -> Script:
    """Read a script that is one file of a package, `NAME.lua`. It also runs on a full server."""
    return assemble(name, [resources.files(package).joinpath(f"{name}.lua").read_text()])


def inline_constants(source: str, given: Mapping[str, str] = {}) -> str:
    """Replace the constants of a script by their values; blank their lines and all comments.

    Lines keep their numbers, so an error of the server names the line of the assembled text. `given`
    constants hold strings; those that the script declares itself hold numbers or strings.
    """
    constants = {name: f"'{value}'" for name, value in given.items()}

    def declare(line: re.Match[str]) -> str:
        names, values = line[1].split(", "), line[2].split(", ")
        if len(names) != len(values) or not all(map(_LITERAL.fullmatch, values)):
            return line[0]
        constants.update(zip(names, values, strict=True))
        return ""

    def substitute(word: re.Match[str]) -> str:
        return "" if word[0].startswith("--") else constants.get(word[0], word[0])

    return _WORDS.sub(substitute, _CONSTANTS.sub(declare, source))


async def evaluate(server: Server, script: Script, tag: str, args: Sequence[ScriptArgument]) -> Any:
    """Run a script on a shard by its hash; load it first where the server does not know it."""
    try:
        return await _evaluate(server, script, tag, args)
    except ScriptFault as fault:
        raise ScriptFault(f"{fault} (script {script.name})") from fault


async def _evaluate(server: Server, script: Script, tag: str, args: Sequence[ScriptArgument]) -> Any:
    filled = [server.epoch if isinstance(one, _Epoch) else one for one in args]
    command = ("EVALSHA", script.sha, 1, shard_meta(tag), *filled)
    loads = server.loads[script.sha]
    try:
        return await server.connection.call(*command)
    except CallFailed as failure:
        if failure.rule.remedy is not Remedy.LOAD:
            raise
    async with server.loading:  # calls to all shards of a server fail at once, and one load is enough
        if server.loads[script.sha] == loads:
            await server.connection.call("SCRIPT", "LOAD", script.source)
            server.loads[script.sha] += 1
    return await server.connection.call(*command)
