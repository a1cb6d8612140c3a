"""Crawls in a folder under virtual time, with faults drawn from fixed seeds."""

import pytest
from tests.simulation_command import digests, simulate


@pytest.mark.slow("a process for each of its seeds, with the real engine in it")
def test_crawls_in_a_folder_keep_their_promises_under_kills_crashes_and_freezes() -> None:
    simulate("folder", "--seeds", "1-40")


@pytest.mark.slow("a process for each of its seeds, with the real engine in it")
def test_a_seed_does_the_same_under_another_hash_seed() -> None:
    assert digests("folder", "41-43", hash_seed="1") == digests("folder", "41-43", hash_seed="2")


@pytest.mark.slow("a process for each of its seeds, with the real engine in it")
def test_planted_faults_of_a_folder_are_found() -> None:
    simulate("--mutants", "settle_before_flush", "checkpoint_not_stored", "short_interval")
