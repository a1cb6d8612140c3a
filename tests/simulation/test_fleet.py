"""Crawls of a fleet on a real Valkey with virtual clocks, with faults drawn from fixed seeds."""

import pytest
from tests.needs import missing
from tests.servers.redis import valkey_program
from tests.simulation_command import digests, simulate, without


@pytest.fixture(autouse=True)
def compiler_and_server() -> None:
    """Report loudly what the machine lacks; continuous integration must have it."""
    if lacking := without("cc", valkey_program):
        missing(lacking)


@pytest.mark.slow("a process for each of its seeds, with the real engine in it")
def test_workers_of_a_fleet_keep_their_promises_under_kills_freezes_and_lost_messages() -> None:
    simulate("fleet", "--seeds", "1-15")


@pytest.mark.slow("a process for each of its seeds, with the real engine in it")
def test_a_seed_of_a_fleet_does_the_same_under_another_hash_seed() -> None:
    assert digests("fleet", "10,16", hash_seed="1") == digests("fleet", "10,16", hash_seed="2")


@pytest.mark.slow("a process for each of its seeds, with the real engine in it")
def test_a_planted_fault_of_a_fleet_is_found() -> None:
    simulate("--mutants", "items_dropped_on_settle")
