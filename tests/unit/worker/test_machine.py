"""Which workers of a machine have ended, by their processes."""

import os
import subprocess
import sys

from shoal.stores.contract.heartbeat import Heartbeat
from shoal.worker.machine import ended_workers, machine_id, process_exists


def beat(worker: str, *, machine: str, pid: int) -> Heartbeat:
    return Heartbeat(
        worker=worker, host="h", pid=pid, machine=machine, roles=(), shoal="", started_at=0.0, beaten_at=0.0,
        doing="idle",
    )  # fmt: skip


def test_only_missing_processes_of_the_same_machine_have_ended() -> None:
    beats = [
        beat("gone", machine="here", pid=1),
        beat("running", machine="here", pid=2),
        beat("elsewhere", machine="there", pid=1),
        beat("older version", machine="", pid=1),
    ]
    assert ended_workers(beats, "here", lambda pid: pid == 2) == {"gone"}
    assert ended_workers(beats, "", lambda pid: False) == set()  # a machine that cannot be told apart


def test_a_process_is_found_until_it_has_been_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process_exists(child.pid)
        child.kill()
        child.wait()
        assert not process_exists(child.pid)
    assert process_exists(os.getpid())
    assert process_exists(1)  # of another user, for all but root


def test_processes_with_the_same_process_ids_have_the_same_machine() -> None:
    code = "from shoal.worker.machine import machine_id; print(machine_id())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == machine_id() != ""
