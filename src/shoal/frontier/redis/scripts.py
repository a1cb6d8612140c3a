"""The scripts: each is the fragments that it needs, in a fixed order, and its own file."""

from importlib.resources import files

from shoal.stores.redis import Script

# Where memory has run out, adding is refused and everything else goes on: what is queued can be worked off.
_ALWAYS = "#!lua flags=allow-oom\n"
_WITH_ROOM = "#!lua\n"

_FRAGMENTS = (
    "clock",
    "shard",
    "epoch",
    "terms",
    "hosts",
    "lanes",
    "spilled",
    "leases",
    "pages",
    "seen",
    "views",
)


class Scripts:
    """All scripts of the frontier."""

    def __init__(self, *, clock: str | None = None) -> None:
        """Load them; tests bring another text in place of clock.lua."""
        self._clock = clock
        self.add = self._script("add", "seen", header=_WITH_ROOM)
        self.add_always = self._script("add", "seen")
        self.lease = self._script("lease", "epoch", "leases", "spilled")
        self.turn = self._script("turn", "epoch")
        self.settle = self._script("settle", "leases", "pages")
        self.acknowledge = self._script("acknowledge", "leases", "pages")
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
        self.drop = self._script("drop", "spilled")
        self.drop_rest = self._script("drop_rest", "leases", "pages", "seen")

    def _script(self, name: str, *fragments: str, header: str = _ALWAYS) -> Script:
        wanted = {"clock", "shard", "terms", "hosts", "lanes", *fragments}
        texts = [self._text(fragment) for fragment in _FRAGMENTS if fragment in wanted]
        return Script(name, header + "\n".join([*texts, self._text(name)]))

    def _text(self, name: str) -> str:
        if name == "clock" and self._clock is not None:
            return self._clock
        return files("shoal.frontier.redis").joinpath(f"{name}.lua").read_text()
