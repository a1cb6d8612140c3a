"""What changes about the exits of a host that refuses addresses: many of its latest responses are 403. Pure.

`proxies.when_refused` decides:

    rotate   a host with a sticky exit gets another one for every request; where every request has another one
             anyway, the host gets a sticky exit
    KIND     its requests leave through exits of this kind, `isp` for example, sticky for a worker
    off      nothing

A change holds for half an hour after the last spike, for all processes of a store.
"""

import msgspec

from shoal.model.adaptive_delay import Signal, Spike
from shoal.model.exits.choice import Rotation

HOLD_S = 1_800.0
_STICKY = (Rotation.TIMED, Rotation.WORKER)
ROTATE, OFF = "rotate", "off"


class HostExits(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the exits of one host are chosen, in place of what the settings say; as it is stored."""

    rotation: Rotation
    kind: str = ""  # empty: as the crawl or the request says
    since: float = 0.0  # epoch seconds
    until: float = 0.0
    refused: int = 0  # responses with 403
    responses: int = 0  # the latest ones, among which they were


def change_exits(
    spike: Spike | None, before: HostExits | None, *, rule: str, rotation: Rotation, now: float
) -> HostExits | None:
    """Return how the exits of a host are chosen after a response; None: as the settings say."""
    current = before if before is not None and before.until > now else None
    if rule == OFF:
        return None
    if spike is None or spike.signal is not Signal.FORBIDDEN:
        return current
    if rule == ROTATE:
        kind, chosen = "", Rotation.REQUEST if rotation in _STICKY else Rotation.WORKER
    else:
        kind, chosen = rule, Rotation.WORKER
    since, until = now if current is None else current.since, now + HOLD_S
    return HostExits(chosen, kind, round(since, 1), round(until, 1), spike.count, spike.responses)


def describe(change: HostExits) -> str:
    """Return in words how the exits of a host are chosen."""
    if change.kind:
        return f"exits of kind {change.kind}, the same for a worker"
    if change.rotation == Rotation.REQUEST:
        return "another exit for every request"
    return "the same exit for a worker"
