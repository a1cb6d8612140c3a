"""Idempotency keys: a request that is sent twice is carried out once, and answered twice.

The answer is kept in the store for a day, so that a client may repeat its request when it, the server or the
network has failed, and through another server of the same store.
"""

import hashlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from shoal.model.limits import MIB
from shoal.stores.contract.api_records import ApiRecords
from shoal.stores.open import open_store, store_exists

PREFIX = "i/"
KEEP_S = 24 * 3600.0
CLAIM_S = 300.0  # after which a request whose server was killed may be carried out again
MAX_KEPT = 20_000
MAX_BYTES_OF_ONE_TOKEN = 4 * MIB  # of kept answers; its oldest are forgotten first
PRUNE_SHARE = 0.01  # of claims; a longer answer makes it as much more likely as it fills its token's bytes


# By chance, and not by the key: a client chooses keys, and could choose only those that delete nothing.
draw = random.random


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
    owner = hashlib.sha256(token.encode()).hexdigest()[:16]
    digest = hashlib.sha256(f"{token}\n{key}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{PREFIX}{owner}/{digest}"


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
                if draw() < PRUNE_SHARE:
                    await self.prune(now)
                return Claimed(key, claim)

    async def keep(self, claimed: Claimed, answer: KeptAnswer) -> None:
        await self._records.swap(claimed.key, claimed.packed, msgspec.msgpack.encode(answer))
        if draw() < len(answer.body) / MAX_BYTES_OF_ONE_TOKEN:
            await self.prune(answer.at)

    async def release(self, claimed: Claimed) -> None:
        """Forget a claim: the request was not carried out and may be repeated."""
        await self._records.swap(claimed.key, claimed.packed, None)

    async def prune(self, now: float) -> None:
        """Delete answers that are too old, the oldest of too many, and those above the bytes of a token."""
        newest = sorted(
            (
                (answer.at if (answer := _read(packed)) else 0.0, key, packed)
                for key, packed in (await self._records.all()).items()
                if key.startswith(PREFIX)
            ),
            reverse=True,
        )
        sizes: Counter[str] = Counter()
        surplus = []
        for number, (at, key, packed) in enumerate(newest):
            owner = key.removeprefix(PREFIX).partition("/")[0]
            sizes[owner] += len(packed)
            if number >= MAX_KEPT or now - at > KEEP_S or sizes[owner] > MAX_BYTES_OF_ONE_TOKEN:
                surplus.append((key, packed))
        await self._records.swap_all({key: (packed, None) for key, packed in surplus})


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
