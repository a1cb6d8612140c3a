"""The scripts: each is the fragments that it needs, in a fixed order, and its own file.

Constants (`local RANK = 4398046511104`) are written into the text wherever they are named. A function of Lua
has room for 200 names, and a host alone has twenty fields; and a number in the text costs nothing to look up.
"""

import re
from importlib.resources import files

from shoal.stores.redis import Script

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


class Scripts:
    """All scripts of the frontier."""

    def __init__(self, *, clock: str | None = None) -> None:
        """Load them; tests bring another text in place of clock.lua."""
        self._clock = clock
        self.add = self._script("add", "seen", header=_WITH_ROOM)
        self.add_always = self._script("add", "seen")
        self.lease = self._script("lease", "epoch", "leases", "spilled", "mending", "forgetting")
        self.turn = self._script("turn", "epoch")
        self.settle = self._script("settle", "leases", "pages")
        self.acknowledge = self._script("acknowledge", "leases", "pages")
        self.reannounce = self._script("reannounce", "leases", "pages")
        self.extend = self._script("extend", "leases")
        self.reclaim = self._script("reclaim", "leases")
        self.counts = self._script("counts", "leases")
        self.spill = self._script("spill", "spilled")
        self.refill = self._script("refill", "spilled")
        self.replay = self._script("replay", "leases", "pages")
        self.purge = self._script("purge")
        self.host_set = self._script("host_set", "leases", "spilled", "views")
        self.host_get = self._script("host_get", "leases", "spilled", "views")
        self.host_list = self._script("host_list", "leases", "spilled", "views")
        self.robots_get = self._script("robots_get")
        self.robots_set = self._script("robots_set")
        self.seen_get = self._script("seen_get", "seen")
        self.terms_set = self._script("terms_set")
        self.repace = self._script("repace")
        self.drop = self._script("drop", "spilled", "forgetting")
        self.drop_rest = self._script("drop_rest", "leases", "pages", "seen")
        self.mend_twice = self._script("mend_twice")
        self.mend_order = self._script("mend_order")
        self.mend_chunk = self._script("mend_chunk", "spilled")
        self.mend_seen = self._script("mend_seen", "seen")
        self.freeze = self._script("freeze", access="")
        self.mend_leases = self._script("mend_leases", "leases", access="frozen")
        self.mend_hosts = self._script("mend_hosts", "spilled", "mending", access="frozen")
        self.mend_pages = self._script("mend_pages", "leases", "pages", access="frozen")
        self.mend_counts = self._script("mend_counts", access="frozen")

    def _script(self, name: str, *fragments: str, header: str = _ALWAYS, access: str = "open") -> Script:
        wanted = {"clock", "shard", access, "terms", "hosts", "lanes", *fragments}
        texts = [self._text(fragment) for fragment in _FRAGMENTS if fragment in wanted]
        return Script(name, header + inlined("\n".join([*texts, self._text(name)])))

    def _text(self, name: str) -> str:
        if name == "clock" and self._clock is not None:
            return self._clock
        return files("shoal.frontier.redis").joinpath(f"{name}.lua").read_text()
