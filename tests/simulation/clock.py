"""Virtual time and seeded chance. Import this before anything of `shoal`.

`World` is what one seed consists of: the clock, one random generator per purpose (one more draw for one purpose
must not shift the others), and the trace. A process runs one seed, so there is one world.
"""

import hashlib
import os
import random
import secrets
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.loop import Node

EPOCH = 1_800_000_000.0
BEGIN = 1_000.0  # the monotonic clock at the beginning of a seed
real_monotonic = time.monotonic
real_sleep = time.sleep

CURRENT: ContextVar["Node | None"] = ContextVar("node", default=None)


class World:
    """The state of one seed that everything shares."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.now = BEGIN
        self.schedule = random.Random(f"schedule {seed}")
        self.disk = random.Random(f"disk {seed}")
        self.web = random.Random(f"web {seed}")
        self.network = random.Random(f"network {seed}")
        self.parser = random.Random(f"parser {seed}")
        self.entropy = random.Random(f"entropy {seed}")
        self.slow_disk = 0.0  # share of calls of threads that take up to half a minute
        self.steps = 0
        self.events: list[str] = []
        self.errors: list[str] = []  # that the product has logged
        self._digest = hashlib.sha256()

    def log(self, *what: object) -> None:
        """Add a line to the trace."""
        line = f"{self.now - BEGIN:.6f} {' '.join(map(str, what))}"
        self._digest.update(line.encode())
        self.events.append(line)

    @property
    def digest(self) -> str:
        """The hash of the trace: equal for two runs that did the same."""
        return self._digest.hexdigest()[:16]


world = World()


def begin(seed: int) -> None:
    """Start the world of a seed; what the product draws is seeded, too."""
    world.__init__(seed)  # type: ignore[misc]  # other modules hold a reference to it
    random.seed(f"product {seed}")


def wall_time() -> float:
    """Return the wall clock of the node that asks."""
    node = CURRENT.get()
    return EPOCH + world.now + (node.wall_offset if node is not None else 0.0)


def _patch() -> None:
    def random_bytes(count: int | None = None) -> bytes:
        return world.entropy.randbytes(32 if count is None else count)

    replaced: dict[Any, dict[str, Any]] = {
        time: {
            "time": wall_time,
            "monotonic": lambda: world.now,
            "perf_counter": lambda: world.now,
            "time_ns": lambda: int(wall_time() * 1e9),
            "monotonic_ns": lambda: int(world.now * 1e9),
            "sleep": lambda _seconds: None,
        },
        os: {"urandom": random_bytes},
        secrets: {
            "token_bytes": random_bytes,
            "token_hex": lambda count=None: random_bytes(count).hex(),
            "randbelow": lambda limit: world.entropy.randrange(limit),  # noqa: PLW0108 - it is replaced
            "randbits": lambda bits: world.entropy.getrandbits(bits),  # noqa: PLW0108
        },
    }
    for module, names in replaced.items():
        for name, value in names.items():
            setattr(module, name, value)


_patch()
