"""Hosts that refuse addresses, and how their exits are chosen; shared by all processes of a store.

A process decides by the responses that it has seen (`model/exits/refusal.py`), and takes over what others
have decided when it merges the health of exits.
"""

import logging
from collections.abc import Mapping

import msgspec

from shoal.fetch.exits.shared_health import ExitRecords
from shoal.model.adaptive_delay import Signal, TroubleWindows
from shoal.model.exits.choice import Rotation
from shoal.model.exits.refusal import HostExits, change_exits, describe

log = logging.getLogger(__name__)

REFUSING = "r/"
MAX_HOSTS = 1_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostExits).decode


def read_refusing(stored: Mapping[str, bytes], now: float) -> dict[str, HostExits]:
    """Return the hosts whose exits are chosen in another way now; what cannot be read counts as none."""
    found = {}
    for key, packed in stored.items():
        if key.startswith(REFUSING):
            try:
                change = _decode(packed)
            except msgspec.DecodeError as error:
                log.error("exit.record_unreadable", extra={"entry": key, "why": str(error)})
                continue
            if change.until > now:
                found[key.removeprefix(REFUSING)] = change
    return found


class RefusingHosts:
    def __init__(self, *, rule: str, rotation: Rotation) -> None:
        self._rule = rule
        self._rotation = rotation
        self._windows = TroubleWindows()
        self._hosts: dict[str, HostExits] = {}
        self._unsaved: set[str] = set()

    def get(self, host: str, now: float) -> HostExits | None:
        """Return how the exits of a host are chosen; None: as the settings say."""
        if not self._hosts:  # by far the most frequent case
            return None
        change = self._hosts.get(host)
        if change is not None and change.until <= now:
            del self._hosts[host]
            log.info("host.exits_restored", extra={"host": host})
            return None
        return change

    def note(self, host: str, signal: Signal, now: float) -> None:
        """Take note of a response; after a spike of 403, choose the exits of its host in another way."""
        spike = self._windows.note(host, signal)
        if spike is None:
            return
        before = self.get(host, now)
        change = change_exits(spike, before, rule=self._rule, rotation=self._rotation, now=now)
        if change is None or change is before:
            return
        self._windows.forget(host)  # the next spike is about the new exits
        self._hosts[host] = change
        self._unsaved.add(host)
        if len(self._hosts) > MAX_HOSTS:
            self._hosts.pop(next(iter(self._hosts)))
        if before is not None:
            return  # the same for longer
        log.warning(
            "host.exits_changed",
            extra={
                "host": host,
                "to": describe(change),
                "refused": change.refused,
                "responses": change.responses,
                "seconds": round(change.until - now),
                "setting": "proxies.when_refused",
            },
        )

    async def sync(self, records: ExitRecords, stored: Mapping[str, bytes], now: float) -> None:
        """Store what was decided here, take over what others have decided, and drop what is over."""
        decided = {host: self._hosts[host] for host in self._unsaved if host in self._hosts}
        current = read_refusing(stored, now)
        kept = current | decided
        for host in sorted(kept, key=lambda host: kept[host].until)[:-MAX_HOSTS]:
            del kept[host]
        changes: dict[str, tuple[bytes | None, bytes | None]] = {
            key: (packed, None)
            for key, packed in stored.items()
            if key.startswith(REFUSING) and key.removeprefix(REFUSING) not in kept
        }
        for host, change in decided.items():
            if host in kept:
                changes[f"{REFUSING}{host}"] = stored.get(f"{REFUSING}{host}"), _encode(change)
        if changes:
            await records.swap_all(changes)
        self._unsaved -= decided.keys()
        for host, change in kept.items():
            known = self._hosts.get(host)
            if known is None or known.until < change.until:
                self._hosts[host] = change
        for host in list(self._hosts):
            self.get(host, now)  # forgets those whose time is over, also if no request asks for them
