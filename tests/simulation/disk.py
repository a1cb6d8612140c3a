"""Files of nodes: released when a node dies, and crash points inside writes.

A crash point is a kill inside synchronous code: the call writes all, a part or nothing of its data, the node dies,
and `Killed` is raised. Every later call of a dead node raises it again. Without that, the order of two writes in
one call of a thread could not matter.

The descriptors of a dead node are replaced (`dup2`) and not closed: a closed number would be taken again by
another node, and a late write of the dead one would reach its file.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.simulation.clock import CURRENT, world

if TYPE_CHECKING:
    from tests.simulation.loop import Node

_real_open, _real_close, _real_connect = os.open, os.close, sqlite3.connect
_owners: dict[int, tuple["Node", int, int]] = {}  # descriptor -> who has opened it, device, inode
GUARDED = ("pwrite", "write", "replace", "rename", "unlink", "ftruncate", "fsync", "mkdir")


class Killed(BaseException):
    """Raised in the node that a crash point has killed."""


class CrashPoints:
    """Kills the node that makes the n-th of the guarded calls; drawn by the plan."""

    def __init__(self) -> None:
        self.countdown = 0  # calls of mortal nodes until one is killed; 0: none is
        self.part = 0.0  # of its data that the fatal call writes; 1: all of it

    def strikes(self, node: "Node") -> bool:
        if not self.countdown or not node.mortal:
            return False
        self.countdown -= 1
        return self.countdown == 0


crash_points = CrashPoints()


def delay() -> float:
    """Return the seconds that one call of a thread takes."""
    chance = world.disk.random()
    if chance < world.slow_disk:
        return 30 * world.disk.random()
    return 0.3 * world.disk.random() if chance > 0.97 else 0.0002 + 0.002 * chance


class Files:
    """What the kernel and SQLite hold for one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.descriptors: set[int] = set()
        self.databases: list[sqlite3.Connection] = []

    def abandon(self) -> None:
        """Release everything as the kernel does when a process ends; uncommitted transactions are lost."""
        grave = os.memfd_create("grave")
        for descriptor in self.descriptors:
            with suppress(OSError):
                found = os.fstat(descriptor)
                if _owners.get(descriptor) == (self._node, found.st_dev, found.st_ino):
                    os.dup2(grave, descriptor)
        for database in self.databases:
            with suppress(sqlite3.Error):
                database.close()


def _open(*args: Any, **options: Any) -> int:
    descriptor = _real_open(*args, **options)
    if (node := CURRENT.get()) is None:
        _owners.pop(descriptor, None)
    else:
        found = os.fstat(descriptor)
        _owners[descriptor] = (node, found.st_dev, found.st_ino)
        node.files.descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    if (node := CURRENT.get()) is not None:
        node.files.descriptors.discard(descriptor)
    _real_close(descriptor)


def _connect(*args: Any, **options: Any) -> sqlite3.Connection:
    database: sqlite3.Connection = _real_connect(*args, **{**options, "check_same_thread": False})
    if (node := CURRENT.get()) is not None:
        node.files.databases.append(database)
    return database


def _guarded(name: str) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(*args: Any, **options: Any) -> Any:
        node = CURRENT.get()
        if node is None:
            return real(*args, **options)
        if node.dead:
            raise Killed
        if not crash_points.strikes(node):
            return real(*args, **options)
        if name in ("pwrite", "write"):
            data = memoryview(args[1]).cast("B")
            if cut := int(len(data) * crash_points.part):
                real(args[0], data[:cut], *args[2:])
        elif crash_points.part >= 0.5:
            real(*args, **options)
        world.log("crash", node, name)
        node.kill()
        raise Killed

    return call


def patch() -> None:
    """Guard the calls of `os` that write, and record who opens what."""
    os.open, os.close, sqlite3.connect = _open, _close, _connect  # type: ignore[assignment]
    for name in GUARDED:
        setattr(os, name, _guarded(name))


patch()
