"""What can be known of this machine and of a store in a folder, without changing anything."""

import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from shoal.model.errors import ShoalError
from shoal.model.limits import ParseLimits
from shoal.parse.pool import ParsePool
from shoal.spider.source import PlainSpider
from shoal.stores.access import peeking
from shoal.stores.contract.checks import Check
from shoal.stores.contract.crawl_record import LOCAL_FOLDER
from shoal.stores.folder.directory import StoreFolder

PRECAUTIONS = {
    "files": "writing files",
    "network": "using the network",
    "tcp": "connecting to servers",
    "processes": "seeing other processes",
    "signals": "sending signals",
}
"""What parse children are kept from, by the measure that sees to it."""


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
    store: StoreFacts = field(default_factory=lambda: StoreFacts(LOCAL_FOLDER))
    fleet: Sequence[Check] = ()  # on the store, where it is a fleet's and no folder
    confinement: frozenset[str] = frozenset(PRECAUTIONS)
    unconfined: str = ""  # why no parse process could be started
    nameservers: Sequence[str] = ()


async def gather(folder: str, fleet: Sequence[Check] = ()) -> Facts:
    """Look at this machine and at a folder; `fleet`: what is known of a store that is none."""
    confinement, unconfined = await _confinement()
    free, inodes = _room(Path(folder))
    missing, extras = _packages()
    return Facts(
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
