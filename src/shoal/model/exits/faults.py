"""What can go wrong between us, an exit and a target, and who is charged: one table, which the code reads and
the reference shows. Pure.

The rule behind it: what fails between us and the exit is the exit's fault, and so is what fails before the
target has answered through it, unless that exit has worked in the meantime. A URL that is not charged waits
and keeps its attempts.
"""

from enum import StrEnum

import msgspec

from shoal.model.failure import Failure, FailureClass

DOUBT_S = 10.0  # without an answer through an exit, after which a fault in doubt counts against the exit
PROVEN_S = 60.0  # for which an answer through an exit says that it works, about a host that never answered
MAX_DOUBT_S = 7_200.0  # for which a URL waits: longer than a crawl waits for its exits by default
HOSTS_IN_A_ROW = 5  # that an exit has not reached, after which it is the exit's fault


class Party(StrEnum):
    EXIT = "the exit"
    AT_HOST = "the exit, at this host"
    DOUBT = "no one, then the exit; the URL if the exit works"
    URL = "the URL"
    NO_ONE = "no one"


class Fault(StrEnum):
    NAME = "name"
    ADDRESS = "address"
    CONNECTION = "connection"
    TLS = "tls"
    LOGIN = "login"
    ACCOUNT = "account"
    NO_PROXY = "no_proxy"
    SILENT = "silent"
    RULES = "rules"
    UNREACHED = "unreached"
    TUNNEL = "tunnel"
    CERTIFICATE = "certificate"
    BROKEN = "broken"
    BLOCKED = "blocked"
    GUARD = "guard"
    BUSY = "busy"
    RESTING = "resting"


class FaultRow(msgspec.Struct, frozen=True):
    charged: Party
    when: str
    then: str


_OTHER = "another exit at once; without one, the URL waits"

FAULTS: dict[Fault, FaultRow] = {
    Fault.NAME: FaultRow(Party.EXIT, "the name of the exit does not resolve", _OTHER),
    Fault.ADDRESS: FaultRow(Party.EXIT, "its address is link-local or serves credentials", _OTHER),
    Fault.CONNECTION: FaultRow(Party.EXIT, "it accepts no connection", _OTHER),
    Fault.TLS: FaultRow(Party.EXIT, "TLS to the exit itself fails", _OTHER),
    Fault.LOGIN: FaultRow(
        Party.EXIT, "it refuses the user name or the password (401, 407)", f"it rests for an hour; {_OTHER}"
    ),
    Fault.ACCOUNT: FaultRow(Party.EXIT, "it wants to be paid (402), or has had enough of us (429)", _OTHER),
    Fault.NO_PROXY: FaultRow(
        Party.EXIT, "its answer is not that of a proxy, or it speaks before it is asked", _OTHER
    ),
    Fault.SILENT: FaultRow(
        Party.EXIT, "it is silent or closes, about the target and about itself (`OPTIONS *`)", _OTHER
    ),
    Fault.RULES: FaultRow(
        Party.AT_HOST,
        "it refuses this target by its rules (403 and others; SOCKS 2, 7, 8)",
        "another exit at once; if all refuse, the URL ends after `retry.max_rests`",
    ),
    Fault.UNREACHED: FaultRow(
        Party.DOUBT,
        "it says that it cannot reach the target (404, 500, 502 to 504; SOCKS 1, 3 to 6), or is silent about"
        " the target alone",
        "a second exit is asked; if that reaches the target, the first is at fault",
    ),
    Fault.TUNNEL: FaultRow(
        Party.DOUBT,
        "the tunnel is open, and nothing, something else than TLS or HTTP, or its end comes through it before"
        " the target has answered",
        "the URL waits",
    ),
    Fault.CERTIFICATE: FaultRow(
        Party.URL, "what answers through the tunnel has a certificate that is not valid", "`tls`"
    ),
    Fault.BROKEN: FaultRow(
        Party.URL,
        "the target has answered through the exit, and the answer ends early, stalls or is malformed",
        "`truncated`, `timeout` or `protocol`; counted against the exit at this host, too",
    ),
    Fault.BLOCKED: FaultRow(
        Party.URL,
        "the target refuses the address of the exit (403, 429, a challenge)",
        "`ip_blocked`, `rate_limited` or `anti_bot`; its host gets another exit, and the pace slows down",
    ),
    Fault.GUARD: FaultRow(Party.URL, "the target may not be asked for through this exit", "`refused`"),
    Fault.BUSY: FaultRow(Party.NO_ONE, "every exit has as many connections as it may have", "the URL waits"),
    Fault.RESTING: FaultRow(Party.NO_ONE, "every exit rests", "the URL waits"),
}


def fault_of(failure: Failure) -> Fault:
    """Return the row of the table that a failure on the way through an exit belongs to."""
    if failure.fault:
        return Fault(failure.fault)
    match failure.failure_class:
        case FailureClass.PROXY_ERROR:  # from a client that knows no more
            return {0: Fault.CONNECTION, 407: Fault.LOGIN}.get(failure.status, Fault.RULES)
        case FailureClass.CONNECT:
            return Fault.UNREACHED
        case FailureClass.REFUSED:
            return Fault.GUARD
    return Fault.BROKEN


def charge_doubt(
    *,
    answered_since: bool,
    silent_s: float,
    host_is_known: bool,
    hosts: int,
    waited_s: float,
    host_was_charged: bool = False,
) -> Party:
    """Return who is charged if no one can tell an exit that fails from a target that does.

    answered_since   the exit has brought an answer since this URL met such a fault before
    silent_s         seconds since its last answer; infinite: never
    host_is_known    the host has answered through some exit
    hosts            hosts that the exit has not reached since its last answer, this one among them
    waited_s         since the URL met the first such fault
    host_was_charged by this rule, and has not answered since: at its end, a crawl has little else left
    """
    if answered_since or host_was_charged or waited_s >= MAX_DOUBT_S:
        return Party.URL
    if not host_is_known and silent_s <= PROVEN_S and hosts < HOSTS_IN_A_ROW:
        return Party.URL  # a dead link, most likely: it must not wait until something else proves the exit
    # A host that is down must not take an exit away from all others, which it serves.
    return Party.NO_ONE if silent_s <= DOUBT_S else Party.EXIT
