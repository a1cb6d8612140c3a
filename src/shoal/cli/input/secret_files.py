"""Credentials in files, as containers, systemd and Kubernetes provide them.

Each variable that holds a credential has a second one that names a file: `PGPASSWORD_FILE` for `PGPASSWORD`.
Anyone who may inspect a container or a unit can read its variables; a file has an owner.
"""

from collections.abc import MutableMapping
from pathlib import Path

from shoal.model.errors import Misconfigured

VARIABLES = (
    "SHOAL_STORE",
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
    try:
        text = Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Misconfigured(f"environment: {variable}: {path} cannot be read: {why}") from None
    if not text or "\0" in text:
        raise Misconfigured(f"environment: {variable}: {path} contains no credential")
    return text
