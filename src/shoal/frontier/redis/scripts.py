"""The Lua scripts of the frontier. `lua/README.md` explains how they are assembled and linted.

A script is the fragments of `lua/fragments` that it needs, in a fixed order, followed by its own file in
`lua`.
"""

from importlib.resources import files

from shoal.redis_client import Script
from shoal.redis_client.script import ALLOW_OOM, DENY_OOM, assemble

_LUA = files("shoal.frontier.redis") / "lua"

_FRAGMENTS = (
    "clock",
    "shard",
    "reject_frozen",
    "require_frozen",
    "epoch",
    "crawl_options",
    "hosts",
    "lanes",
    "spilled",
    "leases",
    "pages",
    "repairing",
    "idle_hosts",
    "seen",
    "views",
)


class _Assembled:
    """A script that is assembled on first access: most processes need few of them."""

    def __init__(
        self, *fragments: str, file: str = "", header: str = ALLOW_OOM, access: str = "reject_frozen"
    ) -> None:
        """`header`: where memory has run out, only scripts that add links are rejected; the rest run, so that
        the queue can be worked off."""
        self._fragments = {"clock", "shard", access, "crawl_options", "hosts", "lanes", *fragments}
        self._file = file  # empty: named like the attribute
        self._header = header

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, scripts: "Scripts", owner: type) -> Script:
        name = self._file or self._name
        texts = [scripts.fragment(fragment) for fragment in _FRAGMENTS if fragment in self._fragments]
        texts.append((_LUA / f"{name}.lua").read_text())
        script = assemble(name, texts, header=self._header)
        vars(scripts)[self._name] = script  # cached: the next access finds it there
        return script


class Scripts:
    """All scripts of the frontier, as attributes."""

    add = _Assembled("seen", header=DENY_OOM)
    add_always = _Assembled("seen", file="add")
    lease = _Assembled("epoch", "leases", "spilled", "repairing", "idle_hosts")
    rate_ticket = _Assembled("epoch")
    pauses = _Assembled()
    address_hosts = _Assembled()
    settle = _Assembled("leases", "pages")
    acknowledge = _Assembled("leases", "pages")
    reannounce = _Assembled("leases", "pages")
    extend = _Assembled("leases")
    reclaim = _Assembled("leases")
    reclaim_lost = _Assembled("leases")
    counts = _Assembled("leases")
    spill = _Assembled("spilled")
    refill = _Assembled("spilled")
    replay = _Assembled("leases", "pages")
    purge = _Assembled()
    readmit = _Assembled("leases")
    host_set = _Assembled("leases", "spilled", "views")
    host_get = _Assembled("leases", "spilled", "views")
    host_list = _Assembled("leases", "spilled", "views")
    robots_get = _Assembled()
    robots_set = _Assembled()
    seen_get = _Assembled("seen")
    crawl_options_set = _Assembled()
    refresh_hosts = _Assembled()
    delete_lanes = _Assembled("spilled", "idle_hosts")
    delete_rest = _Assembled("leases", "pages", "seen")
    freeze = _Assembled(access="")
    repair_duplicates = _Assembled()
    repair_order = _Assembled()
    repair_chunk = _Assembled("spilled")
    repair_seen = _Assembled("seen")
    repair_leases = _Assembled("leases", access="require_frozen")
    repair_hosts = _Assembled("spilled", "repairing", access="require_frozen")
    repair_pages = _Assembled("leases", "pages", access="require_frozen")
    repair_counts = _Assembled(access="require_frozen")

    def __init__(self, *, clock: str | None = None) -> None:
        """`clock`: Lua text that replaces clock.lua, for tests."""
        self._clock = clock

    def fragment(self, name: str) -> str:
        """Return the text of a fragment."""
        if name == "clock" and self._clock is not None:
            return self._clock
        return (_LUA / "fragments" / f"{name}.lua").read_text()


SCRIPTS = Scripts()
"""The scripts with the server's clock."""
