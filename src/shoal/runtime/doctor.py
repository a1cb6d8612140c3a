"""Whether this machine and this store are fit for a crawl: facts are gathered first, then judged.

Gathering changes nothing and asks nobody on the network but the store of a fleet. Judging is pure, so that
every verdict can be tested without a machine that is ill.
"""

import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from shoal.model.errors import ShoalError
from shoal.model.limits import MIB, ParseLimits
from shoal.model.settings import Settings
from shoal.parse.pool import ParsePool
from shoal.runtime.looking import peeking
from shoal.spider.source import PlainSpider
from shoal.stores.address import is_redis
from shoal.stores.folder import StoreFolder

FOLDER = Settings().store  # where files go that were given no place
GIB = 1024 * MIB
OPEN_FILES = (256, 1024)  # below the first nothing runs well; below the second, many hosts at once do not
MEMORY = (256 * MIB, 1 * GIB)  # one parse child may use 512 MiB on a bad page
DISK = (100 * MIB, 2 * GIB)
INODES = (100, 10_000)
WAL = 512 * MIB  # the log is kept to some 64 MiB unless a reader holds it up
RELEASED = 1_763_000_000.0  # no clock that is right is before this
SKEW = 120.0  # seconds that a file may seem to come from the future

PRECAUTIONS = {
    "files": "writing files",
    "network": "using the network",
    "tcp": "connecting to servers",
    "processes": "seeing other processes",
    "signals": "sending signals",
}
"""What parse children are kept from, by the measure that sees to it."""


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    grade: Grade
    finding: str
    fix: str = ""  # what to do about it


@dataclass(frozen=True, slots=True)
class StoreFacts:
    path: str
    exists: bool = False
    writable: bool = True
    owner: str | None = None
    newest: float = 0.0  # epoch seconds of the last write
    wal_bytes: int = 0
    crawls: int = 0
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    python: tuple[int, ...] = sys.version_info[:3]
    missing: Sequence[str] = ()  # packages that Shoal cannot do without
    extras: Mapping[str, bool] = field(default_factory=dict)
    cores: int = 1
    open_files: int = 1 << 20
    memory_bytes: int = 1 << 40
    disk_bytes: int = 1 << 40
    inodes: int | None = None  # None: the file system has no limit
    now: float = 0.0
    store: StoreFacts = field(default_factory=lambda: StoreFacts(FOLDER))
    fleet: Sequence["Check"] = ()  # on the store, where it is a fleet's and no folder
    confinement: frozenset[str] = frozenset(PRECAUTIONS)
    unconfined: str = ""  # why no parse process could be started
    nameservers: Sequence[str] = ()


async def examine(store: str) -> list[Check]:
    """Gather the facts and judge them."""
    fleet: Sequence[Check] = ()
    folder = store
    if is_redis(store):
        from shoal.runtime.fleet_doctor import examine_fleet

        fleet, folder = await examine_fleet(store), FOLDER
    confinement, unconfined = await _confinement()
    free, inodes = _room(Path(folder))
    missing, extras = _packages()
    facts = Facts(
        missing=missing,
        extras=extras,
        cores=os.cpu_count() or 1,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        memory_bytes=_memory(),
        disk_bytes=free,
        inodes=inodes,
        now=time.time(),
        store=await _store(folder) if not fleet else StoreFacts(folder),
        fleet=fleet,
        confinement=confinement,
        unconfined=unconfined,
        nameservers=_nameservers(_text("/etc/resolv.conf")),
    )
    return list(judge(facts))


def judge(facts: Facts) -> Iterator[Check]:
    """Grade every fact; whatever is not fine comes with its fix."""
    version = ".".join(map(str, facts.python))
    yield _check(
        "python",
        f"{version}, {facts.cores} cores",
        facts.python < (3, 11),
        fix="install Python 3.11 or newer",
    )
    yield _check(
        "packages",
        f"missing: {', '.join(facts.missing)}" if facts.missing else "all there",
        bool(facts.missing),
        fix="pip install --upgrade shoal",
    )
    for extra, there in facts.extras.items():
        wanted = "installed" if there else f"not installed; if you want it: pip install 'shoal[{extra}]'"
        yield Check(f"extra {extra}", Grade.OK, wanted)
    yield _least(
        "open files", facts.open_files, OPEN_FILES, f"{facts.open_files:,} allowed", "ulimit -n 4096"
    )
    yield _least(
        "memory",
        facts.memory_bytes,
        MEMORY,
        f"{facts.memory_bytes / GIB:.1f} GiB available",
        "end something else, or crawl with fewer parse processes: --procs 1",
    )
    yield _least(
        "disk",
        facts.disk_bytes,
        DISK,
        f"{facts.disk_bytes / GIB:.1f} GiB free at {facts.store.path}",
        "make room, or put the store elsewhere: --store FOLDER; archive.keep_days lets old pages go",
    )
    if facts.inodes is not None:
        yield _least(
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
    yield _check(
        "dns",
        f"asks {servers}" if servers else "no nameserver in /etc/resolv.conf",
        warn=not servers,
        fix="add a line such as: nameserver 192.0.2.1",
    )


def _check(name: str, finding: str, fail: bool = False, *, warn: bool = False, fix: str) -> Check:
    grade = Grade.FAIL if fail else Grade.WARN if warn else Grade.OK
    return Check(name, grade, finding, "" if grade is Grade.OK else fix)


def _least(name: str, found: int, bounds: tuple[int, int], finding: str, fix: str) -> Check:
    return _check(name, finding, found < bounds[0], warn=found < bounds[1], fix=fix)


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
        yield _check(
            "store",
            store.problems[0] if store.problems else f"{store.path}: {store.crawls} crawls, sound, {use}",
            bool(store.problems),
            fix="shoal verify tells more; put a good copy of the store back if it is damaged",
        )
    if store.exists:
        yield _check(
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


# --- gathering -----------------------------------------------------------------------------------


def _packages() -> tuple[list[str], dict[str, bool]]:
    try:
        required = metadata.requires("shoal") or []
    except metadata.PackageNotFoundError:
        return ["shoal (it runs from a folder)"], {}
    missing: list[str] = []
    extras: dict[str, bool] = {}
    for line in required:
        name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([^'\"]+)", line)
        if extra:
            extras[extra[1]] = extras.get(extra[1], True) and _installed(name)
        elif not _installed(name) and "python_version" not in line:
            missing.append(name)
    return missing, extras


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _memory() -> int:
    """Tell how much memory can still be had: of the machine, or of the container if that is less."""
    available = re.search(r"MemAvailable:\s+(\d+) kB", _text("/proc/meminfo"))
    room = int(available[1]) * 1024 if available else 1 << 40
    limit = _text("/sys/fs/cgroup/memory.max").strip()
    used = _text("/sys/fs/cgroup/memory.current").strip()
    return min(room, int(limit) - int(used)) if limit.isdecimal() and used.isdecimal() else room


def _room(path: Path) -> tuple[int, int | None]:
    there = _nearest(path)
    numbers = os.statvfs(there)
    return shutil.disk_usage(there).free, numbers.f_favail if numbers.f_files else None


def _nearest(path: Path) -> Path:
    """Find the folder that a store is in or will be made in."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.exists())


async def _store(path: str) -> StoreFacts:
    folder = StoreFolder(Path(path))
    writable = os.access(_nearest(folder.path), os.W_OK)
    if not folder.exists:
        return StoreFacts(path, writable=writable)
    wal = folder.database.with_name(f"{folder.database.name}-wal")
    log = wal.stat() if wal.exists() else None
    newest = max(folder.database.stat().st_mtime, log.st_mtime if log else 0.0)
    problems: list[str] = []
    crawls = 0
    try:
        async with peeking(path) as reader:
            for name in await reader.crawls():
                crawls += 1
                problems += [f"{name}: {problem}" for problem in (await reader.audit(name)).problems]
    except ShoalError as error:
        problems.append(str(error))
    size = log.st_size if log else 0
    return StoreFacts(path, True, writable, folder.owner(), newest, size, crawls, problems)


async def _confinement() -> tuple[frozenset[str], str]:
    nothing = PlainSpider("doctor", ("https://page.example/",))
    try:
        async with ParsePool.open(nothing, procs=1, limits=ParseLimits()) as pool:
            return pool.confinement, ""
    except ShoalError as error:
        return frozenset(), str(error)


def _nameservers(text: str) -> list[str]:
    return re.findall(r"^\s*nameserver\s+(\S+)", text, re.MULTILINE)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
