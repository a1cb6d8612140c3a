"""The markers of tests follow from what they start, and a missing server is never overlooked."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.needs import Parameters, missing, started_by
from tests.servers.redis import cluster, valkey
from tests.servers.shared import shared_s3


async def uses_valkey(folder: Path) -> None:
    async with valkey(folder):
        pass


def runs_a_process() -> None:
    subprocess.run(["true"], check=True)


def uses_both() -> Any:
    runs_a_process()
    return shared_s3


class Bench:
    async def open(self, folder: Path) -> None:
        async with cluster(folder):
            pass


BACKENDS = {"one": uses_valkey, "many": Bench}


def chooses(name: str) -> object:
    return BACKENDS[name]


@pytest.mark.parametrize(
    ("function", "parameters", "markers"),
    [
        (uses_valkey, {}, {"needs_redis"}),
        (runs_a_process, {}, {"process"}),
        (uses_both, {}, {"process", "needs_s3"}),
        (Bench, {}, {"needs_cluster"}),
        (chooses, {"name": "one"}, {"needs_redis"}),
        (chooses, {"name": "many"}, {"needs_cluster"}),
        (chooses, {"name": "another"}, set()),
        (missing, {}, set()),
    ],
)
def test_markers_are_read_from_what_a_function_calls(
    function: object, parameters: dict[str, object], markers: set[str]
) -> None:
    assert started_by(function, Parameters(parameters.values()), set()) == markers


def test_what_is_missing_skips_a_test_on_a_machine_and_fails_it_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not on this machine: nginx"):
        missing("nginx")

    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="nginx"):
        missing("nginx")
