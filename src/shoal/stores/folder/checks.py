"""Findings about a folder, for `shoal doctor`. Gathering facts changes nothing; judging them is pure."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import ShoalError
from shoal.model.limits import MIB
from shoal.stores.contract.checks import Check, Grade, StoreHealth, check
from shoal.stores.folder.directory import StoreFolder

MAX_WAL_BYTES = 512 * MIB  # checkpoints keep the log at some 64 MiB unless a reader prevents them


@dataclass(frozen=True, slots=True)
class FolderFacts:
    path: str
    exists: bool = False
    writable: bool = True
    owner: str | None = None
    last_write: float = 0.0  # epoch seconds
    wal_bytes: int = 0
    crawls: int = 0
    problems: Sequence[str] = ()


async def examine_folder(path: str) -> StoreHealth:
    facts = await gather(path)
    return StoreHealth(path, [*judge(facts)], facts.last_write)


async def gather(path: str) -> FolderFacts:
    folder = StoreFolder(Path(path))
    writable = os.access(existing_parent(folder.path), os.W_OK)
    if not folder.exists:
        return FolderFacts(path, writable=writable)
    wal = folder.database.with_name(f"{folder.database.name}-wal")
    log = wal.stat() if wal.exists() else None
    last_write = max(folder.database.stat().st_mtime, log.st_mtime if log else 0.0)
    problems: list[str] = []
    crawls = 0
    try:
        async with SqliteFrontier.peek(folder.database) as reader:
            for name in await reader.crawls():
                crawls += 1
                problems += [f"{name}: {problem}" for problem in (await reader.audit(name)).problems]
    except ShoalError as error:
        problems.append(str(error))
    size = log.st_size if log else 0
    return FolderFacts(path, True, writable, folder.owner(), last_write, size, crawls, problems)


def existing_parent(path: Path) -> Path:
    """Return the folder that a store is in or will be created in."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.exists())


def judge(facts: FolderFacts) -> Iterator[Check]:
    if not facts.writable:
        fix = "change its owner or rights, or choose another: --store FOLDER"
        yield Check("store", Grade.FAIL, f"{facts.path} cannot be written", fix)
    elif not facts.exists and not facts.problems:
        yield Check("store", Grade.OK, f"none at {facts.path} yet")
    else:
        use = f"in use by {facts.owner}" if facts.owner else "not in use"
        yield check(
            "store",
            facts.problems[0] if facts.problems else f"{facts.path}: {facts.crawls} crawls, sound, {use}",
            bool(facts.problems),
            fix="shoal verify shows more; restore the store from a copy if it is damaged",
        )
    if facts.exists:
        yield check(
            "store log",
            f"{facts.wal_bytes / MIB:.1f} MiB",
            warn=facts.wal_bytes > MAX_WAL_BYTES,
            fix="a process has been reading the database for long: end it, then resume the crawl",
        )
