"""What judges deployment files, as published: nothing is installed, and what is run is known by its hash."""

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.corpora.packages import CACHE, KUSTOMIZE, files
from tests.needs import missing

_KUSTOMIZE_SHA256 = "cb0449d245f0a48b654c61b7c57f40281c6ce3b9e52e2dae4bf9bca9d0dfb437"


def kustomized(folder: Path) -> str:
    """Build a folder of manifests as `kubectl apply -k` would send it."""
    command = [str(_kustomize()), "build"] if platform.machine() == "x86_64" else _kubectl()
    return subprocess.run([*command, folder], capture_output=True, text=True, check=True).stdout


def _kustomize() -> Path:
    path = CACHE / "tools" / "kustomize"
    if not path.exists():
        [(_, content)] = files(KUSTOMIZE, "kustomize-")
        assert hashlib.sha256(content).hexdigest() == _KUSTOMIZE_SHA256
        path.parent.mkdir(parents=True, exist_ok=True)
        # Under its name only when it is whole: another test process may look for it.
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        Path(file.name).chmod(0o755)
        Path(file.name).rename(path)
    return path


def _kubectl() -> list[str]:
    if (found := shutil.which("kubectl")) is None:
        missing("kubectl is not installed here, and kustomize is published for x86_64 only")
    return [found, "kustomize"]
