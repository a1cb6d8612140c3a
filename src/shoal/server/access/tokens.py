"""API tokens: a file with a name, a role and a hash of each. The token itself is shown once and kept nowhere.

A token has 256 random bits, so a plain SHA-256 of it cannot be turned back; a slow hash would only help to
keep the server busy. The file is read again when it changes: a token that is removed stops working at once.
"""

import hashlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shoal.model.api.roles import Role
from shoal.model.errors import Misconfigured

log = logging.getLogger(__name__)

PREFIX = "shoal_"  # so that a token found in a file or a log is recognized as one
MAX_TOKENS = 10_000
_MAX_FILE_BYTES = 4 << 20
MAX_NAME = 64


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    role: Role
    sha256: str
    created_at: float
    expires_at: float | None = None

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at


class _TokenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: list[TokenRecord] = []


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def check_name(name: str) -> str:
    """Return the name of a token; raise `Misconfigured` if it could be mistaken on a screen."""
    if not name or len(name) > MAX_NAME or not all(one.isalnum() or one in "._-@" for one in name):
        raise Misconfigured(f"a token's name has 1 to {MAX_NAME} letters, digits and . _ - @, not {name!r}")
    return name


def read_tokens(path: Path) -> list[TokenRecord]:
    """Return the tokens of a file; raise `Misconfigured` if others can write it, or it is not such a file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE_BYTES:
            raise Misconfigured(f"{path}: not a file of tokens")
        if found.st_mode & 0o077:
            raise Misconfigured(f"{path}: other users can read or write it: run  chmod 600 {path}")
        tokens = msgspec.json.decode(path.read_bytes(), type=_TokenFile).tokens
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise Misconfigured(f"{path}: not a file of tokens: {error}") from None
    if len(tokens) > MAX_TOKENS:
        raise Misconfigured(f"{path}: more than {MAX_TOKENS:,} tokens")
    return tokens


def write_tokens(path: Path, tokens: Sequence[TokenRecord]) -> None:
    """Replace the file of tokens, readable for its owner only."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o600)
            file.write(msgspec.json.format(msgspec.json.encode(_TokenFile(list(tokens))), indent=2) + b"\n")
            file.flush()
            os.fsync(handle)
        draft.replace(path)
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be written: {error.strerror}") from None


def add_token(path: Path, name: str, role: Role, *, expires_s: float | None = None) -> str:
    """Add a token to a file and return it: this is the only time it can be seen."""
    known = read_tokens(path)
    check_name(name)
    if any(one.name == name for one in known):
        raise Misconfigured(f"there is a token {name!r} already: shoal token remove {name} removes it")
    token, now = new_token(), time.time()
    expires_at = None if expires_s is None else now + expires_s
    record = TokenRecord(name=name, role=role, sha256=digest_of(token), created_at=now, expires_at=expires_at)
    write_tokens(path, [*known, record])
    return token


def remove_token(path: Path, name: str) -> None:
    known = read_tokens(path)
    kept = [one for one in known if one.name != name]
    if len(kept) == len(known):
        names = ", ".join(one.name for one in known) or "none"
        raise Misconfigured(f"{path} has no token {name!r}; it has: {names}")
    write_tokens(path, kept)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who a request comes from."""

    name: str
    role: Role


class TokenBook:
    """The tokens that a server accepts: those of a file, and those that were made for this run."""

    def __init__(self, path: Path | None, own: Mapping[str, Role] | None = None) -> None:
        """`own`: tokens for this run, with their roles."""
        self._path = path
        self._own = {
            digest_of(token): TokenRecord(
                name="this-run", role=role, sha256=digest_of(token), created_at=time.time()
            )
            for token, role in (own or {}).items()
        }
        self._stamp: tuple[int, int, int] | None = None
        self._filed: dict[str, TokenRecord] = {}
        self._load()

    def refresh(self) -> None:
        """Read the file again if it has changed; no token of a file that became unusable is accepted."""
        try:
            self._load()
        except Misconfigured as error:
            log.error("tokens.unusable", extra={"reason": str(error)})

    def _load(self) -> None:
        if self._path is None:
            return
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            self._stamp, self._filed = None, {}
            return
        if stamp != self._stamp:
            self._stamp, self._filed = stamp, {}
            self._filed = {one.sha256: one for one in read_tokens(self._path)}

    def __len__(self) -> int:
        return len(self._own) + len(self._filed)

    def find(self, digest: str) -> Holder | None:
        """Return the holder of the token with this hash; None: unknown or expired."""
        record = self._own.get(digest) or self._filed.get(digest)
        if record is None or record.is_expired(time.time()):
            return None
        return Holder(record.name, record.role)
