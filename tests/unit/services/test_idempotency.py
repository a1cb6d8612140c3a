"""Idempotency keys: which answer is repeated, and when a request is carried out again."""

from collections.abc import Mapping

import pytest

from shoal.services import idempotency
from shoal.services.idempotency import (
    CLAIM_S,
    KEEP_S,
    Claimed,
    IdempotentRequests,
    KeptAnswer,
    OtherRequest,
    StillRunning,
    judge,
    record_key,
)

DONE = KeptAnswer(request="r", at=100.0, status=201, body=b"{}")
RUNNING = KeptAnswer(request="r", at=100.0)


@pytest.mark.parametrize(
    ("kept", "request_", "now", "answer"),
    [
        (None, "r", 100.0, None),
        (DONE, "r", 200.0, DONE),
        (DONE, "other", 200.0, OtherRequest()),
        (DONE, "r", 101.0 + KEEP_S, None),
        (RUNNING, "r", 101.0, StillRunning()),
        (RUNNING, "r", 101.0 + CLAIM_S, None),  # its server was killed
    ],
)
def test_what_a_repeated_request_is_answered_with(
    kept: KeptAnswer | None, request_: str, now: float, answer: object
) -> None:
    assert judge(kept, request_, now) == answer


def test_keys_of_different_tokens_never_meet() -> None:
    assert record_key("a", "k") != record_key("b", "k")


class Records(dict[str, bytes]):
    """Records in memory."""

    async def all(self) -> dict[str, bytes]:
        return dict(self)

    async def get(self, key: str) -> bytes | None:  # type: ignore[override]
        return dict.get(self, key)

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        if dict.get(self, key) != before:
            return False
        if after is None:
            self.pop(key, None)
        else:
            self[key] = after
        return True

    async def swap_all(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> set[str]:
        return {key for key, (before, after) in changes.items() if await self.swap(key, before, after)}


async def test_a_claim_is_kept_released_and_pruned() -> None:
    requests = IdempotentRequests(Records())
    key = record_key("a", "k")
    claimed = await requests.claim(key, "r", 100.0)
    assert isinstance(claimed, Claimed)
    assert await requests.claim(key, "r", 101.0) == StillRunning()
    await requests.release(claimed)
    again = await requests.claim(key, "r", 100.0)
    assert isinstance(again, Claimed)
    await requests.keep(again, DONE)
    assert await requests.claim(key, "r", 102.0) == DONE
    await requests.prune(102.0 + KEEP_S)
    assert isinstance(await requests.claim(key, "r", 103.0 + KEEP_S), Claimed)


async def test_answers_of_one_token_are_limited_in_bytes_and_its_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idempotency, "draw", lambda: 0.0)  # delete what is too much each time
    monkeypatch.setattr(idempotency, "MAX_BYTES_OF_ONE_TOKEN", 50_000)
    records = Records()
    requests = IdempotentRequests(records)

    async def keep(token: str, key: str, now: float) -> None:
        claimed = await requests.claim(record_key(token, key), "r", now)
        assert isinstance(claimed, Claimed)
        answer = KeptAnswer(request="r", at=now, status=200, body=bytes(10_000))
        await requests.keep(claimed, answer)

    await keep("other", "k", 100.0)
    for number in range(40):
        await keep("greedy", f"{number}", 101.0 + number)

    assert sum(map(len, records.values())) < 2 * 50_000
    assert isinstance(await requests.claim(record_key("other", "k"), "r", 200.0), KeptAnswer)
    assert isinstance(await requests.claim(record_key("greedy", "39"), "r", 200.0), KeptAnswer)
    assert isinstance(await requests.claim(record_key("greedy", "0"), "r", 200.0), Claimed)
