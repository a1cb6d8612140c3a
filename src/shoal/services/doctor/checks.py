"""What is wrong with this machine or a store, and how to fix it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from shoal.model.limits import MIB
from shoal.model.sandbox import SandboxMode
from shoal.model.settings import BrowserSettings
from shoal.parse.sandbox import guarantees
from shoal.parse.sandbox.guarantees import Guarantee
from shoal.services.doctor.facts import MachineFacts, gather
from shoal.stores.contract.checks import Check, Grade, at_least, check
from shoal.stores.open import examine_store

__all__ = ["Check", "Grade", "doctor_json", "examine", "judge"]

GIB = 1024 * MIB
OPEN_FILES = (256, 1024)  # below the first, any crawl is slow; below the second, one of many hosts is
MEMORY = (256 * MIB, 1 * GIB)  # one parse child may use 512 MiB on a bad page
DISK = (100 * MIB, 2 * GIB)
INODES = (100, 10_000)
RELEASED_AT = 1_763_000_000.0  # a correct clock is later than this
FURTHER = (Guarantee.NAMESPACES, Guarantee.USER, Guarantee.CAPABILITIES)  # measures of the sandbox
MAX_SKEW_S = 120.0  # by which a file may be newer than the clock


async def examine(dsn: str, browsers: BrowserSettings | None = None) -> list[Check]:
    """Check this machine and a store, which need not exist or respond."""
    return list(judge(await gather(await examine_store(dsn), browsers or BrowserSettings())))


def judge(facts: MachineFacts) -> Iterator[Check]:
    """Grade every fact; a finding that is not OK includes its fix."""
    version = ".".join(map(str, facts.python))
    yield check(
        "python",
        f"{version}, {facts.cores} cores",
        facts.python < (3, 11),
        fix="install Python 3.11 or newer",
    )
    yield check(
        "packages",
        f"missing: {', '.join(facts.missing)}" if facts.missing else "all there",
        bool(facts.missing),
        fix="pip install --upgrade shoal",
    )
    there = [extra for extra, installed in facts.extras.items() if installed]
    missing = [extra for extra, installed in facts.extras.items() if not installed]
    if there:
        yield Check("extras", Grade.OK, ", ".join(there))
    if missing:
        listed = f"{', '.join(missing)}: pip install 'shoal[NAME]' adds one"
        yield Check("extras missing", Grade.OK, listed)
    yield at_least(
        "open files", facts.open_files, OPEN_FILES, f"{facts.open_files:,} allowed", "ulimit -n 4096"
    )
    yield at_least(
        "memory",
        facts.memory_bytes,
        MEMORY,
        f"{facts.memory_bytes / GIB:.1f} GiB available",
        "end another program, or crawl with fewer parse processes: --procs 1",
    )
    yield at_least(
        "disk",
        facts.disk_bytes,
        DISK,
        f"{facts.disk_bytes / GIB:.1f} GiB free at {facts.store.folder}",
        "free some space, or move the store: --store FOLDER; archive.keep_days deletes old pages",
    )
    if facts.inodes is not None:
        yield at_least(
            "inodes",
            facts.inodes,
            INODES,
            f"{facts.inodes:,} free",
            "delete small files, or use another disk",
        )
    yield _clock(facts)
    yield from facts.store.checks
    yield _parsing(facts)
    yield _browser(facts)
    servers = ", ".join(facts.nameservers)
    yield check(
        "dns",
        f"asks {servers}" if servers else "no nameserver in /etc/resolv.conf",
        warn=not servers,
        fix="add a line such as: nameserver 192.0.2.1",
    )


def _clock(facts: MachineFacts) -> Check:
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(facts.now))
    fix = "set the clock, and let the system keep it: timedatectl set-ntp true"
    if facts.now < RELEASED_AT:
        return Check("clock", Grade.FAIL, f"{shown}, which is before this Shoal was made", fix)
    if facts.store.last_write > facts.now + MAX_SKEW_S:
        return Check("clock", Grade.WARN, f"{shown}, but the store was written later than that", fix)
    return Check("clock", Grade.OK, shown)


def _parsing(facts: MachineFacts) -> Check:
    if facts.unconfined:
        return Check("parsing", Grade.FAIL, facts.unconfined, "allow this user to start processes")
    if why := guarantees.warning(facts.confinement, SandboxMode.PREFER):
        fix = guarantees.remedy(facts.confinement, SandboxMode.PREFER)
        accept = "shoal worker refuses to run spiders like this unless parse.sandbox allows it"
        return Check("parsing", Grade.WARN, why, f"{fix}; {accept}")
    further = ", ".join(one.value for one in FURTHER if one in facts.confinement)
    text = "the sandbox is complete: spiders read only what they need, and change or reach nothing"
    return Check("parsing", Grade.OK, f"{text} (also in force: {further})" if further else text)


def _browser(facts: MachineFacts) -> Check:
    if not facts.browser:
        text = "none; to render pages: apt-get install chromium-headless-shell, or set browser.path"
        return Check("browser", Grade.OK, text)
    if facts.browserless:
        program = facts.browser
        return Check("browser", Grade.WARN, f"{program} cannot be used", facts.browserless)
    return Check("browser", Grade.OK, f"{facts.browser}: isolated, and ready to render pages")


def doctor_json(store: str, checks: Sequence[Check]) -> dict[str, object]:
    failed = any(check.grade is Grade.FAIL for check in checks)
    return {"ok": not failed, "store": store, "checks": [asdict(check) for check in checks]}
