"""The exits that this worker has claimed, where the workers of a store divide the list (`division.py`)."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from shoal.fetch.exits.shared_health import SWAPS, ExitRecords
from shoal.model.exits.division import CLAIM_S, MARGIN_S, RENEW_S, Division, ExitShare, claim, leave
from shoal.model.exits.exit import Exit

log = logging.getLogger(__name__)

DIVISION = "s/"  # the key of the record

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Division).decode


def read_division(packed: bytes | None) -> Division:
    """Return a stored division; what cannot be read counts as none, and the log says so."""
    try:
        return Division() if packed is None else _decode(packed)
    except msgspec.DecodeError as error:
        log.error("exit.record_unreadable", extra={"entry": DIVISION, "why": str(error)})
        return Division()


class ExitClaims:
    def __init__(
        self,
        worker: str,
        exits: Sequence[Exit],
        *,
        busy: Callable[[], Collection[str]],
        changed: Callable[[Collection[str]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`changed` is called with the exits that another worker may use from now on."""
        self._worker = worker
        self._exits = exits
        self._busy = busy
        self._changed = changed
        self._clock = clock
        self._share = ExitShare()
        self._usable: frozenset[str] = frozenset()

    def usable(self, now: float) -> frozenset[str]:
        """Return the exits that requests may use; none without a claim, or when that is about to end."""
        return self._usable if now < self._share.until - MARGIN_S else frozenset()

    async def sync(self, records: ExitRecords, stored: Mapping[str, bytes], now: float) -> None:
        """Claim exits, or renew the claim, and give back what others should have."""
        packed = stored.get(DIVISION)
        for _ in range(SWAPS):
            now = self._clock()
            division = read_division(packed)
            wanted, usable = claim(division, self._worker, self._exits, now, busy=self._busy())
            before, share = division.shares.get(self._worker, ExitShare()), wanted.shares[self._worker]
            if before.exits == share.exits and before.until - now > CLAIM_S - RENEW_S:
                self._take(before, usable)
                return
            # What is given back is used no longer from here on: others may read it before the call returns.
            self._usable &= usable
            if await records.swap(DIVISION, packed, _encode(wanted)):
                self._take(share, usable)
                return
            packed = await records.get(DIVISION)

    async def leave(self, records: ExitRecords) -> None:
        """Return every exit to the other workers."""
        self._take(ExitShare(), frozenset())
        for _ in range(SWAPS):
            packed = await records.get(DIVISION)
            if packed is None or await records.swap(
                DIVISION, packed, _encode(leave(read_division(packed), self._worker))
            ):
                return

    def _take(self, share: ExitShare, usable: frozenset[str]) -> None:
        given_back = set(self._share.exits).difference(share.exits)
        self._share, self._usable = share, usable
        if given_back:
            self._changed(given_back)
