"""The verdicts on what was gathered."""

import time
from collections.abc import Iterator

from shoal.model.limits import MIB
from shoal.services.doctor.facts import PRECAUTIONS, Facts, StoreFacts
from shoal.stores.contract.checks import Check, Grade, check, least

GIB = 1024 * MIB
OPEN_FILES = (256, 1024)  # below the first nothing runs well; below the second, many hosts at once do not
MEMORY = (256 * MIB, 1 * GIB)  # one parse child may use 512 MiB on a bad page
DISK = (100 * MIB, 2 * GIB)
INODES = (100, 10_000)
WAL = 512 * MIB  # the log is kept to some 64 MiB unless a reader holds it up
RELEASED = 1_763_000_000.0  # no clock that is right is before this
SKEW = 120.0  # seconds that a file may seem to come from the future


def judge(facts: Facts) -> Iterator[Check]:
    """Grade every fact; whatever is not fine comes with its fix."""
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
    for extra, there in facts.extras.items():
        wanted = "installed" if there else f"not installed; if you want it: pip install 'shoal[{extra}]'"
        yield Check(f"extra {extra}", Grade.OK, wanted)
    yield least("open files", facts.open_files, OPEN_FILES, f"{facts.open_files:,} allowed", "ulimit -n 4096")
    yield least(
        "memory",
        facts.memory_bytes,
        MEMORY,
        f"{facts.memory_bytes / GIB:.1f} GiB available",
        "end something else, or crawl with fewer parse processes: --procs 1",
    )
    yield least(
        "disk",
        facts.disk_bytes,
        DISK,
        f"{facts.disk_bytes / GIB:.1f} GiB free at {facts.store.path}",
        "make room, or put the store elsewhere: --store FOLDER; archive.keep_days lets old pages go",
    )
    if facts.inodes is not None:
        yield least(
            "inodes",
            facts.inodes,
            INODES,
            f"{facts.inodes:,} free",
            "delete small files, or use another disk",
        )
    yield _clock(facts)
    yield from facts.fleet or _judge_store(facts.store)
    yield _parsing(facts)
    servers = ", ".join(facts.nameservers)
    yield check(
        "dns",
        f"asks {servers}" if servers else "no nameserver in /etc/resolv.conf",
        warn=not servers,
        fix="add a line such as: nameserver 192.0.2.1",
    )


def _clock(facts: Facts) -> Check:
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(facts.now))
    fix = "set the clock, and let the system keep it: timedatectl set-ntp true"
    if facts.now < RELEASED:
        return Check("clock", Grade.FAIL, f"{shown}, which is before this Shoal was made", fix)
    if facts.store.newest > facts.now + SKEW:
        return Check("clock", Grade.WARN, f"{shown}, but the store was written later than that", fix)
    return Check("clock", Grade.OK, shown)


def _judge_store(store: StoreFacts) -> Iterator[Check]:
    if not store.writable:
        fix = "change its owner or rights, or choose another: --store FOLDER"
        yield Check("store", Grade.FAIL, f"{store.path} cannot be written", fix)
    elif not store.exists and not store.problems:
        yield Check("store", Grade.OK, f"none at {store.path} yet")
    else:
        use = f"in use by {store.owner}" if store.owner else "not in use"
        yield check(
            "store",
            store.problems[0] if store.problems else f"{store.path}: {store.crawls} crawls, sound, {use}",
            bool(store.problems),
            fix="shoal verify tells more; put a good copy of the store back if it is damaged",
        )
    if store.exists:
        yield check(
            "store log",
            f"{store.wal_bytes / MIB:.1f} MiB",
            warn=store.wal_bytes > WAL,
            fix="something has been reading the database for long: end it, then crawl on",
        )


def _parsing(facts: Facts) -> Check:
    if facts.unconfined:
        return Check("parsing", Grade.FAIL, facts.unconfined, "allow this user to start processes")
    lacking = [what for measure, what in PRECAUTIONS.items() if measure not in facts.confinement]
    if lacking:
        fix = "use a kernel with Landlock (6.12 or newer) and user namespaces, or run trusted spiders only"
        return Check("parsing", Grade.WARN, f"user code is not kept from {', '.join(lacking)}", fix)
    return Check("parsing", Grade.OK, "user code can neither write files nor reach network or processes")
