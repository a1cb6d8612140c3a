"""Idempotency keys: a request that is sent twice is carried out once, and answered twice.

The answer is kept in the store for a day, so that a client may repeat its request when it, the server or the
network has failed, and through another server of the same store.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from shoal.stores.contract.api_records import ApiRecords
from shoal.stores.open import open_store, store_exists

PREFIX = "i/"
KEEP_S = 24 * 3600.0
CLAIM_S = 300.0  # after which a request whose server was killed may be carried out again
MAX_KEPT = 20_000
PRUNE_EVERY = 100  # records


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    request: str  # digest of method, path and body
    at: float
    status: int = 0  # 0: still in progress
    body: bytes = b""
    content_type: bytes = b""


@dataclass(frozen=True, slots=True)
class Claimed:
    """This request is the first with its key."""

    key: str
    packed: bytes


@dataclass(frozen=True, slots=True)
class StillRunning:
    pass


@dataclass(frozen=True, slots=True)
class OtherRequest:
    pass


def record_key(token: str, key: str) -> str:
    """Return the name of a record: keys of different tokens never meet."""
    return PREFIX + hashlib.sha256(f"{token}\n{key}".encode("utf-8", "surrogateescape")).hexdigest()


def judge(
    kept: KeptAnswer | None, request: str, now: float
) -> KeptAnswer | StillRunning | OtherRequest | None:
    """Return what a repeated request is answered with; None: carry it out."""
    if kept is None or now - kept.at > KEEP_S:
        return None
    if kept.request != request:
        return OtherRequest()
    if kept.status:
        return kept
    return StillRunning() if now - kept.at < CLAIM_S else None


class IdempotentRequests:
    def __init__(self, records: ApiRecords) -> None:
        self._records = records

    async def claim(
        self, key: str, request: str, now: float
    ) -> Claimed | KeptAnswer | StillRunning | OtherRequest:
        """Claim a key for a request, or return what is known of the request that had it first."""
        while True:
            packed = await self._records.get(key)
            found = judge(_read(packed), request, now)
            if found is not None:
                return found
            claim = msgspec.msgpack.encode(KeptAnswer(request=request, at=now))
            if await self._records.swap(key, packed, claim):
                if int(key[-4:], 16) % PRUNE_EVERY == 0:
                    await self.prune(now)
                return Claimed(key, claim)

    async def keep(self, claimed: Claimed, answer: KeptAnswer) -> None:
        await self._records.swap(claimed.key, claimed.packed, msgspec.msgpack.encode(answer))

    async def release(self, claimed: Claimed) -> None:
        """Forget a claim: the request was not carried out and may be repeated."""
        await self._records.swap(claimed.key, claimed.packed, None)

    async def prune(self, now: float) -> None:
        """Delete answers that are too old, and the oldest of too many."""
        kept = {key: (_read(packed), packed) for key, packed in (await self._records.all()).items()}
        mine = sorted(
            (0.0 if answer is None else answer.at, key, packed)
            for key, (answer, packed) in kept.items()
            if key.startswith(PREFIX)
        )
        surplus = max(0, len(mine) - MAX_KEPT)
        old = mine[:surplus] + [one for one in mine[surplus:] if now - one[0] > KEEP_S]
        await self._records.swap_all({key: (packed, None) for _, key, packed in old})


def _read(packed: bytes | None) -> KeptAnswer | None:
    if packed is None:
        return None
    try:
        return msgspec.msgpack.decode(packed, type=KeptAnswer)
    except msgspec.MsgspecError:
        return None


@asynccontextmanager
async def open_requests(dsn: str) -> AsyncIterator[IdempotentRequests]:
    """Open the kept answers of a store, which need not exist yet."""
    async with open_store(dsn, create=not store_exists(dsn)) as store:
        yield IdempotentRequests(store.api_records)
