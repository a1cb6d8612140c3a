"""What the sandbox guarantees, what a spider may not run without, and what the operator can change. Pure."""

from collections.abc import Collection
from enum import StrEnum

from shoal.model.sandbox import SandboxMode


class Guarantee(StrEnum):
    """What the kernel enforces for the processes of a spider."""

    READING = "reading"  # no file is read but those of `readable.py`, or those that every user may read
    WRITING = "writing"  # no file is written, created, removed or given other rights
    NETWORK = "network"  # no socket, neither of a network nor a Unix one
    PROCESSES = "processes"  # no program started, no process traced, inspected or signalled
    # Further measures, which make each other's failure harmless.
    NAMESPACES = "namespaces"
    USER = "user"
    CAPABILITIES = "capabilities"


ESSENTIAL = {
    Guarantee.READING: "reading other files",
    Guarantee.WRITING: "changing files",
    Guarantee.NETWORK: "using the network and Unix sockets",
    Guarantee.PROCESSES: "starting and signalling processes",
}

_LANDLOCK = (
    "Landlock, in Linux 5.13 or newer with `landlock` in /sys/kernel/security/lsm;"
    " in a container, a seccomp profile that allows landlock_create_ruleset, landlock_add_rule and"
    " landlock_restrict_self"
)
_SECCOMP = "seccomp filters (CONFIG_SECCOMP_FILTER) on x86_64 or aarch64"
ACCEPT = 'parse.sandbox = "prefer" runs spiders without it'


def missing(held: Collection[str]) -> list[Guarantee]:
    """Return the essential guarantees that do not hold."""
    return [guarantee for guarantee in ESSENTIAL if guarantee not in held]


def describe(held: Collection[str], mode: SandboxMode) -> str:
    """Return the state of the sandbox in a few words, for heartbeats and screens."""
    if mode is SandboxMode.OFF:
        return "off"
    lacking = missing(held)
    return f"incomplete: {', '.join(lacking)}" if lacking else "complete"


def warning(held: Collection[str], mode: SandboxMode) -> str:
    """Return in one line what spiders are not kept from; empty if the sandbox is complete."""
    if mode is SandboxMode.OFF:
        return "the sandbox is off: a spider may do whatever this user may do"
    if not (lacking := missing(held)):
        return ""
    return f"the sandbox is incomplete: a spider is not kept from {_listed(lacking)}"


def remedy(held: Collection[str], mode: SandboxMode) -> str:
    """Return what the operator can change; empty if the sandbox is complete."""
    if mode is SandboxMode.OFF:
        return 'set parse.sandbox = "require"'
    needed = dict.fromkeys(_LANDLOCK if one is Guarantee.READING else _SECCOMP for one in missing(held))
    return f"needs {'; and '.join(needed)}" if needed else ""


def refusal(held: Collection[str]) -> str:
    """Return why a spider is not run under `require`; empty if it is."""
    if not (lacking := missing(held)):
        return ""
    return (
        f"parse.sandbox: the sandbox of spiders lacks {', '.join(lacking)}: a spider would not be kept from"
        f" {_listed(lacking)}. It {remedy(held, SandboxMode.REQUIRE)}. {ACCEPT}"
    )


def _listed(lacking: Collection[Guarantee]) -> str:
    return ", ".join(ESSENTIAL[one] for one in lacking)
