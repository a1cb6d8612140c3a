"""What is known about this machine, gathered without changing anything."""

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

from shoal.fetch.browser.chromium import find_program, missing_program, open_chromium
from shoal.model.errors import ShoalError
from shoal.model.limits import ParseLimits
from shoal.model.settings import BrowserSettings
from shoal.parse.pool import ParsePool
from shoal.parse.sandbox.guarantees import Guarantee
from shoal.spider.source import PlainSpider
from shoal.stores.contract.checks import StoreHealth
from shoal.stores.contract.crawl_record import LOCAL_FOLDER


@dataclass(frozen=True, slots=True)
class MachineFacts:
    python: tuple[int, ...] = sys.version_info[:3]
    missing: Sequence[str] = ()  # required packages
    extras: Mapping[str, bool] = field(default_factory=dict)
    cores: int = 1
    open_files: int = 1 << 20
    memory_bytes: int = 1 << 40
    disk_bytes: int = 1 << 40
    inodes: int | None = None  # None: the file system has no limit
    now: float = 0.0
    store: StoreHealth = field(default_factory=lambda: StoreHealth(LOCAL_FOLDER))
    confinement: frozenset[str] = frozenset(Guarantee)  # what the sandbox of spiders guarantees
    unconfined: str = ""  # why no parse process could be started
    nameservers: Sequence[str] = ()
    browser: str = ""  # program and version; empty: none is installed
    browserless: str = ""  # why a browser that is installed does not start


async def gather(store: StoreHealth, browsers: BrowserSettings) -> MachineFacts:
    """Gather the facts about this machine, for a store whose health is known."""
    browser, browserless = await _browser(browsers)
    confinement, unconfined = await _confinement()
    free, inodes = _disk_space(Path(store.folder))
    missing, extras = _packages()
    return MachineFacts(
        missing=missing,
        extras=extras,
        cores=os.cpu_count() or 1,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        memory_bytes=_memory(),
        disk_bytes=free,
        inodes=inodes,
        now=time.time(),
        store=store,
        confinement=confinement,
        unconfined=unconfined,
        nameservers=_nameservers(_text("/etc/resolv.conf")),
        browser=browser,
        browserless=browserless,
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
    """Return the memory available on the machine, or in the container if that is less."""
    available = re.search(r"MemAvailable:\s+(\d+) kB", _text("/proc/meminfo"))
    free = int(available[1]) * 1024 if available else 1 << 40
    limit = _text("/sys/fs/cgroup/memory.max").strip()
    used = _text("/sys/fs/cgroup/memory.current").strip()
    return min(free, int(limit) - int(used)) if limit.isdecimal() and used.isdecimal() else free


def _disk_space(path: Path) -> tuple[int, int | None]:
    """Return the free bytes and inodes where a store is or will be created."""
    path = path.absolute()
    folder = next(folder for folder in (path, *path.parents) if folder.exists())
    numbers = os.statvfs(folder)
    return shutil.disk_usage(folder).free, numbers.f_favail if numbers.f_files else None


async def _confinement() -> tuple[frozenset[str], str]:
    nothing = PlainSpider("doctor", ("https://page.example/",))
    try:
        async with ParsePool.open(nothing, procs=1, limits=ParseLimits()) as pool:
            return pool.confinement, ""
    except ShoalError as error:
        return frozenset(), str(error)


async def _browser(settings: BrowserSettings) -> tuple[str, str]:
    """Start a browser as a crawl would; return what it is, or why it does not start."""
    if missing_program(settings.path):
        return "", ""
    try:
        async with open_chromium(settings) as chromium:
            return f"{find_program(settings.path)}, {chromium.version}", ""
    except (ShoalError, OSError) as error:  # TimeoutError is one
        return find_program(settings.path), str(error) or "it does not start in time"


def _nameservers(text: str) -> list[str]:
    return re.findall(r"^\s*nameserver\s+(\S+)", text, re.MULTILINE)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
