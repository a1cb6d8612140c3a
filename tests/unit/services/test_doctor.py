"""Every verdict of the doctor, on machines that need not exist."""

from dataclasses import replace

import pytest

from shoal.model.limits import MIB
from shoal.services.doctor.checks import RELEASED_AT, Check, Grade, judge
from shoal.services.doctor.facts import MachineFacts
from shoal.stores.contract.checks import StoreHealth
from shoal.stores.folder.checks import FolderFacts
from shoal.stores.folder.checks import judge as judge_folder

NOW = RELEASED_AT + 1e6
FINE = MachineFacts(now=NOW, nameservers=["192.0.2.1"], extras={"parquet": False})
STORE = FolderFacts("data", exists=True, crawls=2, last_write=NOW)


def with_store(facts: FolderFacts) -> MachineFacts:
    return replace(FINE, store=StoreHealth(facts.path, [*judge_folder(facts)], facts.last_write))


def bad(facts: MachineFacts) -> list[Check]:
    return [check for check in judge(facts) if check.grade is not Grade.OK]


@pytest.mark.parametrize("facts", [FINE, with_store(STORE)])
def test_a_healthy_machine_has_nothing_to_mend(facts: MachineFacts) -> None:
    assert bad(facts) == []


@pytest.mark.parametrize(
    ("facts", "name", "grade", "finding"),
    [
        (replace(FINE, python=(3, 10, 4)), "python", Grade.FAIL, "3.10.4"),
        (replace(FINE, missing=["lxml"]), "packages", Grade.FAIL, "missing: lxml"),
        (replace(FINE, open_files=100), "open files", Grade.FAIL, "100 allowed"),
        (replace(FINE, open_files=1000), "open files", Grade.WARN, "1,000 allowed"),
        (replace(FINE, memory_bytes=100 * MIB), "memory", Grade.FAIL, "0.1 GiB available"),
        (replace(FINE, memory_bytes=512 * MIB), "memory", Grade.WARN, "0.5 GiB available"),
        (replace(FINE, disk_bytes=0), "disk", Grade.FAIL, "0.0 GiB free at shoal-data"),
        (replace(FINE, disk_bytes=1024 * MIB), "disk", Grade.WARN, "1.0 GiB free"),
        (replace(FINE, inodes=5), "inodes", Grade.FAIL, "5 free"),
        (replace(FINE, now=1.0), "clock", Grade.FAIL, "1970-01-01 00:00:01 UTC, which is before"),
        (with_store(replace(STORE, last_write=NOW + 9999)), "clock", Grade.WARN, "written later"),
        (with_store(replace(STORE, writable=False)), "store", Grade.FAIL, "cannot be written"),
        (with_store(replace(STORE, problems=["a: two"])), "store", Grade.FAIL, "a: two"),
        (with_store(replace(STORE, wal_bytes=999 * MIB)), "store log", Grade.WARN, "999.0 MiB"),
        (
            replace(FINE, confinement=frozenset({"files"})),
            "parsing",
            Grade.WARN,
            "not kept from reading other files",
        ),
        (replace(FINE, unconfined="no process"), "parsing", Grade.FAIL, "no process"),
        (
            replace(FINE, browser="chromium", browserless="no namespaces"),
            "browser",
            Grade.WARN,
            "cannot be used",
        ),
        (replace(FINE, nameservers=[]), "dns", Grade.WARN, "no nameserver"),
    ],
)
def test_what_is_wrong_is_named_and_comes_with_its_fix(
    facts: MachineFacts, name: str, grade: Grade, finding: str
) -> None:
    [check] = bad(facts)
    assert (check.name, check.grade) == (name, grade)
    assert finding in check.finding
    assert check.fix
