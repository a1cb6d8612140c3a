"""What can go wrong between us and Redis, and what is done about it: a table.

Every call of ours may be repeated (scripts are written that way), so most rows end in doing the same again.
What differs is what has to happen first.
"""

import re
from dataclasses import dataclass
from enum import Enum

from shoal.model.errors import Misconfigured, ShoalError, Unavailable


class Remedy(Enum):
    LOAD = "load the script on that server, then repeat"
    WAIT = "wait a little, then repeat"
    REDISCOVER = "ask again who the master is, then repeat"
    TELL = "tell the caller, who can do something about it"
    STOP = "stop with a message: a person has to change something"
    DOUBT = "stop with a message, unless this store has answered before: then repeat"


@dataclass(frozen=True, slots=True)
class ErrorRule:
    remedy: Remedy
    meaning: str  # the end of a sentence that begins with the name of the store


LOST = "connection lost"  # kinds that no server sends
TIMEOUT = "timeout"
UNSYNCED = "not on disk"
NO_REDIS = "no Redis"
NO_TLS = "no TLS"
NO_CERTIFICATE = "no certificate"

TABLE: dict[str, ErrorRule] = {
    # The script cache ends with the process and is not replicated.
    "NOSCRIPT": ErrorRule(Remedy.LOAD, "does not know the script"),
    "LOADING": ErrorRule(Remedy.WAIT, "is reading its data from disk"),
    "BUSY": ErrorRule(Remedy.WAIT, "is busy with a long script"),
    # open.lua: somebody has frozen a shard, for seconds.
    "FROZEN": ErrorRule(Remedy.WAIT, "has a shard that is being put right (shoal verify --repair)"),
    # Slots on the move. ASK is not followed: a script that is sent on finds its other keys missing and would
    # begin a second, empty shard on the other server.
    "ASK": ErrorRule(Remedy.WAIT, "is moving this slot to another server"),
    "TRYAGAIN": ErrorRule(Remedy.WAIT, "is moving this slot to another server"),
    "MOVED": ErrorRule(Remedy.REDISCOVER, "has moved this slot to another server"),
    "CLUSTERDOWN": ErrorRule(Remedy.REDISCOVER, "says that its cluster is down"),
    "MASTERDOWN": ErrorRule(Remedy.REDISCOVER, "is a replica without a master"),
    # A master that was demoted, or an address that leads to a replica.
    "READONLY": ErrorRule(Remedy.REDISCOVER, "is a replica: writes need the master"),
    "UNBLOCKED": ErrorRule(Remedy.REDISCOVER, "was demoted while we waited"),
    "NOREPLICAS": ErrorRule(Remedy.WAIT, "has too few replicas that follow, so that nothing can be promised"),
    "MISCONF": ErrorRule(Remedy.WAIT, "cannot write its data to disk, and refuses changes: make room there"),
    UNSYNCED: ErrorRule(Remedy.WAIT, "takes long to write its log to disk"),
    "OOM": ErrorRule(Remedy.TELL, "is full (maxmemory)"),
    "NOAUTH": ErrorRule(Remedy.STOP, "asks for a password: redis://user:password@host, or SHOAL_STORE"),
    "WRONGPASS": ErrorRule(Remedy.STOP, "refuses this user and password"),
    "NOPERM": ErrorRule(Remedy.STOP, "does not let this user run a command that is needed"),
    "DENIED": ErrorRule(Remedy.STOP, "is in protected mode: give it a password, or bind it to an address"),
    NO_CERTIFICATE: ErrorRule(
        Remedy.STOP, "asks for a certificate that it trusts: ?cert_file= and ?key_file= name one"
    ),
    NO_REDIS: ErrorRule(
        Remedy.DOUBT, "does not speak Redis: is that the right port? One for TLS takes rediss://"
    ),
    NO_TLS: ErrorRule(Remedy.DOUBT, "does not speak TLS: is that the right port? One without takes redis://"),
    LOST: ErrorRule(Remedy.REDISCOVER, "closed the connection or cannot be reached"),
    TIMEOUT: ErrorRule(Remedy.REDISCOVER, "does not answer in time"),
}

# These come without a word of their own. The first that fits counts.
BY_TEXT = {
    # In a cluster: "max number of clients + cluster connections reached".
    "ERR max number of clients": ErrorRule(Remedy.WAIT, "has no connection left (maxclients)"),
    "ERR unknown command 'SENTINEL'": ErrorRule(
        Remedy.STOP, "is no sentinel: use redis:// instead of redis+sentinel://"
    ),
    "ERR unknown command": ErrorRule(
        Remedy.STOP, "does not know a command that is needed: was it renamed, or is a proxy in between?"
    ),
    "ERR invalid password": TABLE["WRONGPASS"],
    "ERR AUTH <password> called without": ErrorRule(
        Remedy.STOP, "has no password set, and the DSN gives one"
    ),
    "ERR ACL failure in script": TABLE["NOPERM"],
    "ERR The user executing the script can't": TABLE["NOPERM"],
    "ERR DB index is out of range": ErrorRule(Remedy.STOP, "does not have that many databases"),
    "ERR No such master with that name": ErrorRule(Remedy.STOP, "(a sentinel) knows no master by that name"),
    "ERR This instance has cluster support disabled": ErrorRule(
        Remedy.STOP, "is not a cluster: use redis:// instead of redis+cluster://"
    ),
}


_COMMAND = re.compile(r"(?:run the|unknown command) '([\w|]+)'")
_RAISED = re.compile(r"ERR user_script:\d+: (?=[A-Z]+ )")  # before an error that a script has passed on


class Full(Unavailable):
    """The store has no memory left: what it holds can be worked off, nothing can be added."""

    def __init__(
        self, what: str, remedy: str = "give it more, or let workers work off what is queued"
    ) -> None:
        super().__init__(f"{what}: {remedy}")
        self.what = what


class ScriptFault(Exception):
    """A script or command of ours is wrong: a bug, and no error of the store."""


class CallFailed(Exception):
    """One attempt failed, in a way that the table knows."""

    def __init__(self, kind: str, where: str, text: str = "", *, detail: str = "") -> None:
        super().__init__(f"{kind} ({where})")
        self.kind = kind
        self.where = where
        self.row = _row(kind, text)
        self._text = text
        self._detail = detail or _detail(text)

    def again(self) -> "CallFailed":
        """Make another one of it, for whoever it is raised for as well: a raised one is not shared."""
        return CallFailed(self.kind, self.where, self._text, detail=self._detail)

    def explain(self) -> str:
        return f"{self.where} {self.row.meaning}{self._detail and f' ({self._detail})'}"

    def error(self, patience: float = 0.0) -> ShoalError:
        """Put it the way a caller can act on, once nothing more is tried."""
        match self.row.remedy:
            case Remedy.STOP | Remedy.DOUBT:
                return Misconfigured(f"store: {self.explain()}")
            case Remedy.TELL:
                return Full(f"store: {self.explain()}")
            case _:
                return Unavailable(f"store: {self.explain()}; gave up after {patience:.0f} s")


def refused(text: str, where: str) -> CallFailed | ScriptFault:
    """Name what a server answered instead of a result."""
    text = _RAISED.sub("", text)
    kind = text.partition(" ")[0]
    if kind in TABLE or any(text.startswith(known) for known in BY_TEXT):
        return CallFailed(kind, where, text)
    return ScriptFault(f"{where}: {text}")


def _detail(text: str) -> str:
    """Say which command is refused, or that keys are. Nothing else is repeated: it might be a secret."""
    if (command := _COMMAND.search(text)) is not None and command[1] != "SENTINEL":
        return command[1].upper()
    if "NOPERM" in text or "ACL" in text or "can't" in text:
        return "its keys begin with {shoal, or the namespace that the DSN names" if " key" in text else ""
    return ""


def _row(kind: str, text: str) -> ErrorRule:
    if (row := TABLE.get(kind)) is not None:
        return row
    return next(row for known, row in BY_TEXT.items() if text.startswith(known))
