"""Every place of a Lua script that can be changed so that its meaning changes, by its text: line by line, without comments."""

import re
from collections.abc import Iterator

from tests.mutation.mutant import Mutant

_CHANGES = [
    (r"==", "~=", "comparison turned round"),
    (r"~=", "==", "comparison turned round"),
    (r"(?<=\s)<(?=\s)", "<=", "boundary moved"),
    (r"(?<=\s)<=(?=\s)", "<", "boundary moved"),
    (r"(?<=\s)>(?=\s)", ">=", "boundary moved"),
    (r"(?<=\s)>=(?=\s)", ">", "boundary moved"),
    (r"\band\b", "or", "and/or exchanged"),
    (r"\bor\b", "and", "and/or exchanged"),
    (r"\bnot\b", "", "not removed"),
    (r"(?<=\s)\+(?=\s)", "-", "arithmetic changed"),
    (r"(?<=\s)-(?=\s)", "+", "arithmetic changed"),
    (r"\btrue\b", "false", "constant changed"),
    (r"\bfalse\b", "true", "constant changed"),
    (r"(?<![\w.'\"])\d+(?![\w.'\"])", r"(\g<0> + 1)", "constant changed"),
]
_STATEMENT = re.compile(r"^(\s*)([\w.:\[\]']+\s*\(.*\)|[\w.\[\]']+\s*=\s*.*)$")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")


def every_place(path: str, source: bytes) -> Iterator[Mutant]:
    """Yield the mutants of a script."""
    offset = 0
    for number, raw in enumerate(re.findall(r"[^\n]*\n?", source.decode()), 1):
        code = raw.split("--", 1)[0].rstrip("\n")
        hidden = _TEXT.sub(lambda text: "'" + "_" * (len(text[0]) - 2) + "'", code)
        for pattern, other, kind in _CHANGES:
            for found in re.finditer(pattern, hidden):
                start = offset + len(code[: found.start()].encode())
                end = offset + len(code[: found.end()].encode())
                yield Mutant(path, number, kind, start, end, found.expand(other), raw.strip())
        if _is_statement(hidden):
            start = offset + len(code) - len(code.lstrip())
            end = offset + len(code.rstrip().encode())
            yield Mutant(path, number, "statement removed", start, end, "", raw.strip())
        offset += len(raw.encode())


def _is_statement(line: str) -> bool:
    """Return whether a line is one whole call or assignment. A local one is not: without it, the script does not run."""
    whole = line.count("(") == line.count(")") and line.count("{") == line.count("}")
    keyword = re.match(r"\s*(local|return|if|elseif|for|while|function|end|else)\b", line)
    return whole and not keyword and bool(_STATEMENT.match(line.rstrip()))
