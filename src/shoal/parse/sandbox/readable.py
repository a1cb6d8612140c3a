"""Which files a process that runs user code may read: what Python and the spider need, and no secrets.

Landlock rules name files and folders that may be read with everything below them; there are no exceptions. So
a folder that contains something private is not allowed as a whole, but entry by entry.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

# Shared libraries, time zones, locales, certificates of authorities, facts about the processor.
_SYSTEM = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/share/ca-certificates",
    "/usr/share/i18n",
    "/usr/share/locale",
    "/usr/share/mime",
    "/usr/share/zoneinfo",
    "/etc/alternatives",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
)
# Prefixes of an interpreter that hold more than the interpreter: only the folders of `_SYSTEM` in them.
_SHARED_PREFIXES = frozenset({"/", "/usr", "/usr/local", "/opt"})
# Folders for the files of many programs or users: a spider in one of them gets the Python files beside it.
_CROWDED = frozenset(
    {"/", "/etc", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var", "/var/tmp"}  # noqa: S108
)
_PRIVATE_NAMES = frozenset({"shoal.toml"})  # and names that begin with a dot


class ReadablePath(msgspec.Struct, frozen=True):
    """A file, or a folder with everything below it."""

    path: str
    content: bool = True  # False: folders may be listed, and no file may be read


def readable_paths(
    spider: str | None, *, import_path: Sequence[str], given: Sequence[str], private: Sequence[str]
) -> list[ReadablePath]:
    """Return what the processes of a spider may read.

    `spider` is its file, `import_path` the list `sys.path`, `given` what the operator adds, and `private`
    what is not readable although it is in one of these folders: the store.
    """
    hidden = [os.path.realpath(path) for path in private if path]
    found = [ReadablePath(path) for path in _SYSTEM]
    found += (ReadablePath(path) for path in _interpreter_paths())
    folders = {os.path.realpath(entry or ".") for entry in import_path}
    if spider is not None:
        found.append(ReadablePath(os.path.realpath(spider)))
        folders.add(os.path.dirname(os.path.realpath(spider)))
    for folder in sorted(folders):
        found += _folder(folder, hidden)
    found += (ReadablePath(os.path.realpath(path)) for path in given)
    return found


def _interpreter_paths() -> Iterator[str]:
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        if os.path.realpath(prefix) not in _SHARED_PREFIXES:
            yield prefix
    yield from {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def _folder(folder: str, private: Sequence[str]) -> Iterator[ReadablePath]:
    """Yield a folder as a whole, or what in it is not private."""
    if not os.path.isdir(folder):
        yield ReadablePath(folder)  # a zip file in sys.path
        return
    yield ReadablePath(folder, content=False)  # imports list folders
    if _is_crowded(folder):
        yield from (ReadablePath(entry.path) for entry in _entries(folder) if entry.name.endswith(".py"))
        return
    within = [path for path in private if _contains(folder, path)]
    entries = list(_entries(folder))
    if not within and not any(_is_private_name(entry.name) for entry in entries):
        yield ReadablePath(folder)
        return
    for entry in entries:
        if _is_private_name(entry.name) or entry.path in within:
            continue
        if any(_contains(entry.path, path) for path in within):
            yield from _folder(entry.path, within)
        else:
            yield ReadablePath(entry.path)


def _entries(folder: str) -> Iterable["os.DirEntry[str]"]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _is_private_name(name: str) -> bool:
    return name.startswith(".") or name in _PRIVATE_NAMES


def _is_crowded(folder: str) -> bool:
    home = os.path.realpath(os.path.expanduser("~"))
    return folder in _CROWDED or folder == home or _contains(folder, home)


def _contains(folder: str, path: str) -> bool:
    return path != folder and path.startswith(folder.rstrip("/") + "/")
