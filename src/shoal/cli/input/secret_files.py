"""Credentials in files, as containers, systemd and Kubernetes provide them.

Each variable that holds a credential has a second one that names a file: `PGPASSWORD_FILE` for `PGPASSWORD`.
Anyone who may inspect a container or a unit can read its variables; a file has an owner.
"""

import stat
from collections.abc import MutableMapping
from pathlib import Path

from shoal.model.errors import Misconfigured

_MAX_FILE_BYTES = 1 << 16
VARIABLES = (
    "SHOAL_STORE",
    "SHOAL_PROXY_LIST",
    "PGPASSWORD",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)


def load_secret_files(environ: MutableMapping[str, str]) -> None:
    """Read each `*_FILE` into its variable. `Misconfigured` names the variable, never its value."""
    for name in VARIABLES:
        if not (path := environ.pop(f"{name}_FILE", "")):
            continue
        if environ.get(name):
            raise Misconfigured(f"environment: {name} and {name}_FILE are both set; unset one of them")
        environ[name] = _read(f"{name}_FILE", path)


def _read(variable: str, path: str) -> str:
    """Return the credential in a file. No error shows the path: by mistake it may be the credential."""
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE_BYTES:
            raise Misconfigured(f"environment: {variable}: it does not name a file with a credential")
        text = Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the path
        why = getattr(error, "strerror", None) or "it is not text"
        raise Misconfigured(
            f"environment: {variable}: the file that it names cannot be read: {why}"
        ) from None
    if not text or "\0" in text:
        raise Misconfigured(f"environment: {variable}: the file that it names contains no credential")
    return text
