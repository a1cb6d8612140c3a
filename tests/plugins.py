"""Third-party packages, built and installed outside the source tree for one test.

A package is installed into a folder of the test and not into the virtual environment. A test puts that folder on
`PYTHONPATH` of the `shoal` process, where `importlib.metadata` finds the package's entry points.
"""

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

VERSION = "1.0"


def install_plugin(
    folder: Path, name: str, modules: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]
) -> Path:
    """Build a wheel in `folder`, install it beside it and return the folder for `PYTHONPATH`.

    `modules` maps paths inside the wheel (`myfmt.py`, `myfmt/__init__.py`) to source text.
    `entry_points` maps groups to names to targets: `{"shoal.sinks": {".myfmt": "myfmt:open_sink"}}`.
    Several packages may be installed into the same folder.
    """
    wheel = build_wheel(folder, name, modules, entry_points)
    site = folder / "site-packages"
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--offline",
        "--no-config",
    ]
    subprocess.run([*command, "--target", str(site), str(wheel)], check=True, timeout=60)
    return site


def build_wheel(
    folder: Path, name: str, modules: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write a pure Python wheel into `folder` and return its path."""
    distribution = name.replace("-", "_")
    info = f"{distribution}-{VERSION}.dist-info"
    files = {
        **modules,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": _entry_points_text(entry_points),
    }
    record = "".join(f"{path},{_digest(text)},{len(text.encode())}\n" for path, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"

    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{distribution}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def _entry_points_text(entry_points: Mapping[str, Mapping[str, str]]) -> str:
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in targets.items())
        for group, targets in entry_points.items()
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
