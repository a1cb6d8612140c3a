"""apt-get, as tests use it: one at a time, and with package lists."""

import fcntl
import os
import subprocess
from pathlib import Path

LONGEST = 300.0  # seconds; the largest package has 35 MB
_LOCK = Path(__file__).parents[2] / ".cache" / "apt.lock"


def apt_get(*arguments: str, folder: Path | None = None) -> None:
    """Run apt-get; where it fails, once more with fresh package lists. Raises `SubprocessError` in the end.

    Several test processes want packages at the same time, and apt-get fails where another one runs.
    """
    _LOCK.parent.mkdir(parents=True, exist_ok=True)
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _run(*arguments, folder=folder)
        except subprocess.CalledProcessError:
            _run("update", folder=folder)
            _run(*arguments, folder=folder)


def _run(*arguments: str, folder: Path | None) -> None:
    subprocess.run(
        ["apt-get", "-q", "-o", f"DPkg::Lock::Timeout={LONGEST / 2:.0f}", *arguments],
        cwd=folder,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        timeout=LONGEST,
        check=True,
    )
