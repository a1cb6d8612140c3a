"""The table of Redis failures, and what the client does about each.

Every call may be repeated (scripts are written that way), so most rules end in a retry. They differ in what
has to happen first.
"""

import re
from dataclasses import dataclass
from enum import Enum

from shoal.model.errors import DataFault, Misconfigured, ShoalError, Unavailable


class Remedy(Enum):
    LOAD = "load the script on that server, then repeat"
    WAIT = "wait a little, then repeat"
    REDISCOVER = "look up the master again, then repeat"
    REPORT = "raise: the caller can do something about it"
    STOP = "stop with a message: the operator has to change something"
    STOP_AT_START = "stop with a message, unless this store has answered before: then repeat"


@dataclass(frozen=True, slots=True)
class ErrorRule:
    remedy: Remedy
    meaning: str  # the end of a sentence that starts with the address of the server


LOST = "connection lost"  # kinds that are not sent by a server
TIMEOUT = "timeout"
UNSYNCED = "not on disk"
NO_REDIS = "no Redis"
NO_TLS = "no TLS"
NO_CERTIFICATE = "no certificate"

TABLE: dict[str, ErrorRule] = {
    # The script cache is lost with the process and is not replicated.
    "NOSCRIPT": ErrorRule(Remedy.LOAD, "does not know the script"),
    "LOADING": ErrorRule(Remedy.WAIT, "is reading its data from disk"),
    "BUSY": ErrorRule(Remedy.WAIT, "is busy with a long script"),
    # Raised by the scripts of the frontier while a repair has frozen a shard, for seconds.
    "FROZEN": ErrorRule(Remedy.WAIT, "has a shard that is being repaired (shoal verify --repair)"),
    # Slots that are being moved. ASK is not followed: on the other server a script would find its other keys
    # missing and would create a second, empty shard.
    "ASK": ErrorRule(Remedy.WAIT, "is moving this slot to another server"),
    "TRYAGAIN": ErrorRule(Remedy.WAIT, "is moving this slot to another server"),
    "MOVED": ErrorRule(Remedy.REDISCOVER, "has moved this slot to another server"),
    "CLUSTERDOWN": ErrorRule(Remedy.REDISCOVER, "reports that its cluster is down"),
    "MASTERDOWN": ErrorRule(Remedy.REDISCOVER, "is a replica without a master"),
    # A master that was demoted, or an address that leads to a replica.
    "READONLY": ErrorRule(Remedy.REDISCOVER, "is a replica: writes need the master"),
    "UNBLOCKED": ErrorRule(Remedy.REDISCOVER, "was demoted while a call was blocked"),
    "NOREPLICAS": ErrorRule(Remedy.WAIT, "has too few replicas in sync, so writes cannot be confirmed"),
    "MISCONF": ErrorRule(Remedy.WAIT, "cannot write to its disk and rejects changes: free disk space there"),
    UNSYNCED: ErrorRule(Remedy.WAIT, "takes too long to write its AOF to disk"),
    "OOM": ErrorRule(Remedy.REPORT, "is full (maxmemory)"),
    "NOAUTH": ErrorRule(Remedy.STOP, "requires a password: redis://user:password@host, or SHOAL_STORE"),
    "WRONGPASS": ErrorRule(Remedy.STOP, "rejects this user and password"),
    "NOPERM": ErrorRule(Remedy.STOP, "does not allow this user to run a required command"),
    "DENIED": ErrorRule(Remedy.STOP, "is in protected mode: set a password, or bind it to an address"),
    NO_CERTIFICATE: ErrorRule(
        Remedy.STOP, "requires a client certificate that it trusts: ?cert_file= and ?key_file="
    ),
    NO_REDIS: ErrorRule(
        Remedy.STOP_AT_START, "does not speak Redis: is this the right port? With TLS, use rediss://"
    ),
    NO_TLS: ErrorRule(
        Remedy.STOP_AT_START, "does not speak TLS: is this the right port? Without TLS, use redis://"
    ),
    LOST: ErrorRule(Remedy.REDISCOVER, "closed the connection or cannot be reached"),
    TIMEOUT: ErrorRule(Remedy.REDISCOVER, "does not answer in time"),
}

# Errors with the generic code ERR, by the start of their text. The first match counts.
BY_TEXT = {
    # In a cluster: "max number of clients + cluster connections reached".
    "ERR max number of clients": ErrorRule(Remedy.WAIT, "has no connection left (maxclients)"),
    "ERR unknown command 'SENTINEL'": ErrorRule(
        Remedy.STOP, "is not a sentinel: use redis:// instead of redis+sentinel://"
    ),
    "ERR unknown command": ErrorRule(
        Remedy.STOP, "does not know a required command: was it renamed, or is there a proxy in between?"
    ),
    "ERR invalid password": TABLE["WRONGPASS"],
    "ERR AUTH <password> called without": ErrorRule(Remedy.STOP, "has no password set, but the DSN has one"),
    "ERR ACL failure in script": TABLE["NOPERM"],
    "ERR The user executing the script can't": TABLE["NOPERM"],
    "ERR DB index is out of range": ErrorRule(Remedy.STOP, "does not have that many databases"),
    "ERR No such master with that name": ErrorRule(Remedy.STOP, "(a sentinel) knows no master of that name"),
    "ERR This instance has cluster support disabled": ErrorRule(
        Remedy.STOP, "is not a cluster: use redis:// instead of redis+cluster://"
    ),
}


_COMMAND = re.compile(r"(?:run the|unknown command) '([\w|]+)'")
_RAISED = re.compile(r"ERR user_script:\d+: (?=[A-Z]+ )")  # prefix of an error that a script passes on


class Full(Unavailable):
    """The store has no memory left: its queue can be worked off, but nothing can be added."""

    def __init__(
        self, what: str, remedy: str = "raise the limit, or run workers until the queue is shorter"
    ) -> None:
        super().__init__(f"{what}: {remedy}")
        self.what = what


class ScriptFault(DataFault):
    """A script or command cannot run: the data is not as it should be, or a bug."""


class CallFailed(Exception):
    """One attempt failed in a way that the table has a rule for."""

    def __init__(self, kind: str, where: str, text: str = "", *, detail: str = "") -> None:
        super().__init__(f"{kind} ({where})")
        self.kind = kind
        self.where = where
        self.rule = _rule(kind, text)
        self._text = text
        self._detail = detail or _detail(text)

    def copy(self) -> "CallFailed":
        """Return a new exception for another caller: a raised exception must not be shared."""
        return CallFailed(self.kind, self.where, self._text, detail=self._detail)

    def explain(self) -> str:
        return f"{self.where} {self.rule.meaning}{self._detail and f' ({self._detail})'}"

    def error(self, patience: float = 0.0) -> ShoalError:
        """Return the `ShoalError` for the caller, once nothing more is tried."""
        match self.rule.remedy:
            case Remedy.STOP | Remedy.STOP_AT_START:
                return Misconfigured(f"store: {self.explain()}")
            case Remedy.REPORT:
                return Full(f"store: {self.explain()}")
            case _:
                return Unavailable(f"store: {self.explain()}; gave up after {patience:.0f} s")


def parse_error_reply(text: str, where: str, command: str = "") -> CallFailed | ScriptFault:
    """Return the exception for an error reply; `command` says what was called, without secrets."""
    text = _RAISED.sub("", text)
    kind = text.partition(" ")[0]
    if kind in TABLE or any(text.startswith(known) for known in BY_TEXT):
        return CallFailed(kind, where, text)
    return ScriptFault(f"{where}: {text}{command and f' ({command})'}")


def _detail(text: str) -> str:
    """Name the rejected command, or that keys are rejected. Anything else might be a secret."""
    if (command := _COMMAND.search(text)) is not None and command[1] != "SENTINEL":
        return command[1].upper()
    if "NOPERM" in text or "ACL" in text or "can't" in text:
        return "its keys start with {shoal, or the namespace in the DSN" if " key" in text else ""
    return ""


def _rule(kind: str, text: str) -> ErrorRule:
    if (rule := TABLE.get(kind)) is not None:
        return rule
    return next(rule for known, rule in BY_TEXT.items() if text.startswith(known))
