"""Words that are retired from code, docs and messages, and the command that finds them.

python -m tests.repo.vocabulary src/shoal/fetch docs/guide.md
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

RETIRED = {
    r"whoever|whichever|somebody|nobody|anybody|one's own": "name the component, the operator or the caller",
    r"in hand": "in progress, held",
    r"puts? (it |them |things )?right|putting right|\bmend(s|ed|ing)?\b": "repair",
    r"makes? way|gives? way": "hands over, releases",
    r"(is|are|was|were) (?-i:none)\b|that is no\b": "is not a ..., does not exist",
    r"of (its|their|our|one's|his) own\b": "separate, dedicated, private",
    r"\b(hear|hears|heard)\b": "receive, record, learn",
    r"ha(s|ve) (its|their|our) say": "runs first",
    r"com(e|es|ing) to (its|their|an) end|came to (its|their|an) end": "finish, end",
    r"(go|goes|going|went) on\b": "continue, resume",
    r"(is|are|be|being|was|were) waited for": "retried until available",
    r"\blies\b|\blie\b": "is stored",
    r"as it stands|stand(s|ing)? by\b": "current; standby",
    r"lookalikes?": "near-duplicate",
    r"\bone a (line|page|second|minute)\b|\ba line each\b": "one per line",
    r"with commas between": "comma-separated",
    r"\bso many (pages|requests|seconds|items|times|urls|hosts)\b": "N pages",
    r"\b(desks?|crew|rota|outlet|companions?|holdups?|belongings|overseer|hindrances?|nursery)\b": "see docs/glossary.md",
    r"hang-?up|hangs? up|hung up": "closes the connection",
    r"is told\b|are told\b|was told\b|were told\b": "receives, is called with",
    r"makes? (it|them) so\b|be it that|to be had": "say it directly",
    r"falls? silent|silence\b": "stops responding",
    r"\bmeanwhile\b": "until then, during the call, since",
    r"sign(s)? of life": "heartbeat",
    r"for ever\b": "forever, without limit",
}
FIRST_WORDS = {"Give", "Gives", "Say", "Says", "Tell", "Tells", "Let", "Spell", "Hear"}
# Functions are named by verbs or nouns; these say neither what a function does nor what it returns.
LONE_PARTICIPLES = {
    *("asked", "drawn", "fitted", "given", "heard", "kept", "landed", "meant", "repaired", "noted", "owed"),
    *("placed", "said", "shown", "spelled", "standing", "taken", "told", "widened"),
}
TEXT = {".md", ".lua", ".sql", ".toml", ".txt", ".sh", ".yaml", ".yml"}

_WORDS = "|".join(f"(?P<r{n}>{words})" for n, words in enumerate(RETIRED))
_PATTERN = re.compile(f"(?<![a-z])(?:{_WORDS})", re.IGNORECASE)
_ADVICE = list(RETIRED.values())


def findings(path: Path) -> Iterator[str]:
    """Return a line per retired word in a file, and per docstring that starts with one."""
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if "vocabulary: ok" in line:
            continue
        for found in _PATTERN.finditer(line):
            advice = _ADVICE[int((found.lastgroup or "r0")[1:])]
            yield f"{path}:{number}: {found.group()!r}: {advice}"
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or "").split(" ", 1)[0]
                if first in FIRST_WORDS:
                    name = getattr(node, "name", "module")
                    yield f"{path}:{getattr(node, 'lineno', 1)}: docstring of {name} starts with {first!r}: Return, Raise, Open, Write"


def files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_file():
            yield place
        else:
            yield from sorted(
                path
                for path in place.rglob("*")
                if path.suffix in TEXT | {".py"} and "__pycache__" not in path.parts
            )


def main() -> int:
    lines = [line for path in files([Path(name) for name in sys.argv[1:]]) for line in findings(path)]
    print(*lines, f"{len(lines)} findings", sep="\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
