"""Texts that differ little have hashes that differ little, and a memory that finds them."""

import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.traps.simhash import NearDuplicates, _majority, distance, simhash

RNG = random.Random(7)
VOCABULARY = ["".join(RNG.choices("abcdefghijklmnopqrstuvwxyz", k=RNG.randint(2, 10))) for _ in range(2_000)]
BITS = st.integers(0, 2**64 - 1)


def words(count: int, seed: int) -> list[str]:
    return random.Random(seed).choices(VOCABULARY, k=count)


def hashed(parts: list[str]) -> int:
    found = simhash(" ".join(parts))
    assert found is not None
    return found


def test_the_same_words_have_the_same_hash_however_they_are_spaced() -> None:
    text = words(100, seed=1)
    assert simhash("\n\t".join(text)) == hashed(text)


def test_one_changed_word_in_a_thousand_is_close_and_another_text_is_far() -> None:
    near = []
    for seed in range(50):
        text = words(1_000, seed)
        changed = [*text[:500], "different", *text[501:]]
        near.append(distance(hashed(text), hashed(changed)))
        assert distance(hashed(text), hashed(words(1_000, seed + 100))) > 10
    assert sum(bits <= 3 for bits in near) >= 45


def test_the_order_of_words_matters() -> None:
    text = words(200, seed=2)
    assert distance(hashed(text), hashed(text[::-1])) > 10


def test_texts_without_spaces_are_compared_by_their_characters() -> None:
    text = "".join(
        random.Random(3).choices(
            "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子", k=600
        )
    )
    near, far = simhash(text[:300] + "電" + text[301:]), simhash(text[::-1])
    first = simhash(text)
    assert first is not None
    assert near is not None
    assert far is not None
    assert distance(first, near) <= 6 < 10 < distance(first, far)


@pytest.mark.parametrize("text", ["", " ", "log in", "x" * 20, " ".join(["word"] * 31)])
def test_a_short_text_has_no_hash(text: str) -> None:
    assert simhash(text) is None


def test_another_process_finds_the_same_hash() -> None:
    text = " ".join(words(100, seed=4))
    code = "import sys; from shoal.model.traps.simhash import simhash; print(simhash(sys.argv[1]))"
    other = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True, check=True)
    assert int(other.stdout) == simhash(text)


@given(st.lists(BITS, min_size=1, max_size=70))
def test_folding_counts_as_counting_one_by_one_does(lanes: list[int]) -> None:
    expected = sum(1 << bit for bit in range(64) if sum(lane >> bit & 1 for lane in lanes) * 2 > len(lanes))
    side_by_side = sum(lane << 64 * place for place, lane in enumerate(lanes))
    assert _majority(side_by_side, len(lanes)) == expected


@given(BITS, st.sets(st.integers(0, 63), max_size=8), st.integers(0, 7))
def test_everything_within_the_distance_is_found_and_nothing_else(
    page: int, flipped: set[int], limit: int
) -> None:
    memory = NearDuplicates(distance=limit)
    other = page
    for bit in flipped:
        other ^= 1 << bit
    assert memory.seen("a.example", page) is None
    assert memory.seen("a.example", other) == (page if len(flipped) <= limit else None)


def test_hosts_do_not_know_of_one_another() -> None:
    memory = NearDuplicates()
    assert memory.seen("a.example", 5) is None
    assert memory.seen("b.example", 5) is None
    assert memory.seen("a.example", 4) == 5


def test_a_page_that_is_close_to_another_is_not_stored() -> None:
    memory = NearDuplicates()
    for page in range(8):  # three low bits
        memory.seen("a.example", page)
    assert len(memory) == 1


def test_the_oldest_page_is_removed_when_the_index_is_full() -> None:
    memory = NearDuplicates(capacity=2)
    pages = [0, 0xFFFF, 0xFFFF_FFFF]
    for page in pages:
        assert memory.seen("a.example", page) is None
    assert len(memory) == 2
    assert memory.seen("a.example", 0xFFFF) == 0xFFFF
    assert memory.seen("a.example", 0) is None
    assert memory.seen("a.example", 0xFFFF) is None


def test_hashes_crafted_to_share_a_band_do_not_accumulate() -> None:
    memory = NearDuplicates()
    rng = random.Random(9)
    for _ in range(2_000):
        memory.seen("a.example", rng.getrandbits(48) << 16)
    assert max(map(len, memory._buckets.values())) <= 32
