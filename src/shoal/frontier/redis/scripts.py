"""The scripts: each is those of `lua/fragments` that it needs, in a fixed order, and its own file in `lua`.

Constants (`local RANK = 4398046511104`) are written into the text wherever they are named. A function of Lua
has room for 200 names, and a host alone has twenty fields; and a number in the text costs nothing to look up.
"""

import re
from importlib.resources import files

from shoal.redis_client import Script

_LUA = files("shoal.frontier.redis") / "lua"

# Where memory has run out, adding is refused and everything else goes on: what is queued can be worked off.
_ALWAYS = "#!lua flags=allow-oom\n"
_WITH_ROOM = "#!lua\n"

_FRAGMENTS = (
    "clock",
    "shard",
    "open",
    "frozen",
    "epoch",
    "terms",
    "hosts",
    "lanes",
    "spilled",
    "leases",
    "pages",
    "mending",
    "forgetting",
    "seen",
    "views",
)

_CONSTANTS = re.compile(r"^local ([A-Z][A-Z_, ]+) = (.+?)(?: +--.*)?$", re.MULTILINE)
_LITERAL = re.compile(r"-?[\d.]+|'[^']*'")
_WORDS = re.compile(r"'[^']*'|--.*|\b[A-Z][A-Z_]+\b")


def inlined(source: str) -> str:
    """Write the constants of a script into its text, and leave their lines and all comments empty."""
    constants: dict[str, str] = {}

    def note(declared: re.Match[str]) -> str:
        names, values = declared[1].split(", "), declared[2].split(", ")
        if len(names) != len(values) or not all(map(_LITERAL.fullmatch, values)):
            return declared[0]
        constants.update(zip(names, values, strict=True))
        return ""

    def write(word: re.Match[str]) -> str:
        return "" if word[0].startswith("--") else constants.get(word[0], word[0])

    return _WORDS.sub(write, _CONSTANTS.sub(note, source))


class _Made:
    """A script that is put together when it is first asked for: most calls need few of them."""

    def __init__(self, *fragments: str, of: str = "", header: str = _ALWAYS, access: str = "open") -> None:
        self._wanted = {"clock", "shard", access, "terms", "hosts", "lanes", *fragments}
        self._of = of  # its file, if that has another name
        self._header = header

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, scripts: "Scripts", owner: type) -> Script:
        name = self._of or self._name
        texts = [scripts.fragment(fragment) for fragment in _FRAGMENTS if fragment in self._wanted]
        texts.append((_LUA / f"{name}.lua").read_text())
        made = Script(name, self._header + inlined("\n".join(texts)))
        vars(scripts)[self._name] = made  # found there from now on
        return made


class Scripts:
    """All scripts of the frontier."""

    add = _Made("seen", header=_WITH_ROOM)
    add_always = _Made("seen", of="add")
    lease = _Made("epoch", "leases", "spilled", "mending", "forgetting")
    turn = _Made("epoch")
    settle = _Made("leases", "pages")
    acknowledge = _Made("leases", "pages")
    reannounce = _Made("leases", "pages")
    extend = _Made("leases")
    reclaim = _Made("leases")
    counts = _Made("leases")
    spill = _Made("spilled")
    refill = _Made("spilled")
    replay = _Made("leases", "pages")
    purge = _Made()
    host_set = _Made("leases", "spilled", "views")
    host_get = _Made("leases", "spilled", "views")
    host_list = _Made("leases", "spilled", "views")
    robots_get = _Made()
    robots_set = _Made()
    seen_get = _Made("seen")
    terms_set = _Made()
    repace = _Made()
    drop = _Made("spilled", "forgetting")
    drop_rest = _Made("leases", "pages", "seen")
    mend_twice = _Made()
    mend_order = _Made()
    mend_chunk = _Made("spilled")
    mend_seen = _Made("seen")
    freeze = _Made(access="")
    mend_leases = _Made("leases", access="frozen")
    mend_hosts = _Made("spilled", "mending", access="frozen")
    mend_pages = _Made("leases", "pages", access="frozen")
    mend_counts = _Made(access="frozen")

    def __init__(self, *, clock: str | None = None) -> None:
        """Tests bring another text in place of clock.lua."""
        self._clock = clock

    def fragment(self, name: str) -> str:
        """Give the text of a fragment."""
        if name == "clock" and self._clock is not None:
            return self._clock
        return (_LUA / "fragments" / f"{name}.lua").read_text()


SCRIPTS = Scripts()
"""As everybody uses them, but for tests."""
