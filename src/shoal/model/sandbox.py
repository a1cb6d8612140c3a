"""What the operator decides about the sandbox of spiders. A crawl's record in a shared store never does."""

from enum import StrEnum

import msgspec


class SandboxMode(StrEnum):
    REQUIRE = "require"  # run no spider without the essential guarantees
    PREFER = "prefer"  # warn and run
    OFF = "off"  # take no measures


class SandboxRules(msgspec.Struct, frozen=True):
    """How the processes of a spider are sandboxed."""

    mode: SandboxMode = SandboxMode.PREFER
    readable: tuple[str, ...] = ()  # paths that a spider may read besides its own
    environment: tuple[str, ...] = ()  # variables that a spider may see besides the usual ones
    private: tuple[str, ...] = ()  # paths that it may not read even if they are in its folder: the store
