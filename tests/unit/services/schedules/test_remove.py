"""Which files a run leaves that `keep` removes; a store that an attacker has written deletes no others."""

from pathlib import Path

import pytest
from tests.unit.services.schedules.test_rules import START, schedule

from shoal.model.configuration.crawl_definition import CrawlDefinition
from shoal.model.settings import Settings
from shoal.services.schedules.remove import remove_run
from shoal.services.schedules.rules import stamp_of
from shoal.stores.contract.schedules import RunState, ScheduledRun
from shoal.stores.open import open_store

STAMP = stamp_of(START)
RUN = ScheduledRun(tick=START, state=RunState.DONE, crawl="a")


class Shared:
    """A shared store, as far as a generation is removed from it."""

    class capabilities:  # noqa: N801
        shared = True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place in ("own", "other"):
        (tmp_path / place).mkdir()
        for name in (f"a-{STAMP}.csv", f"b-{STAMP}.csv", "a.csv"):
            (tmp_path / place / name).write_text("items")
            (tmp_path / place / f"{name}.shoal.lock").write_text("")
            if not name.startswith("b"):
                (tmp_path / place / f"{name}.shoal").write_text("")
    (tmp_path / "own" / f"link-{STAMP}").symlink_to(tmp_path / "other")
    return tmp_path


@pytest.mark.parametrize(
    ("output", "removed"),
    [
        ("a-{tick}.csv", True),
        ("b-{tick}.csv", False),  # nothing shows that a fleet has written it
        ("{tick}/../a.csv", False),
        ("../other/a-{tick}.csv", False),
        ("link-{tick}/a-{tick}.csv", False),
        ("a.csv", False),
        ("s3://bucket/a-{tick}.csv", False),
        ("a\0-{tick}.csv", False),
    ],
)
async def test_a_shared_store_removes_what_a_fleet_wrote_for_the_tick_below_the_schedulers_folder(
    output: str, removed: bool, folder: Path
) -> None:
    own = folder / "own"
    before = {path for path in folder.rglob("*") if path.is_file()}  # noqa: ASYNC240 (a folder of a test)
    one = schedule(
        "a", every_s=60.0, again=True, keep=1, folder=str(own), crawl=CrawlDefinition(outputs=(output,))
    )
    await remove_run(Shared(), one, RUN, folders=[own], settings=Settings())  # type: ignore[arg-type]
    gone = before - {path for path in folder.rglob("*") if path.is_file()}  # noqa: ASYNC240
    name = f"a-{STAMP}.csv"
    assert gone == ({own / name, own / f"{name}.shoal", own / f"{name}.shoal.lock"} if removed else set())


async def test_in_a_folder_the_file_of_the_tick_is_removed_and_removing_it_again_does_no_harm(
    folder: Path,
) -> None:
    own = folder / "own"
    outputs = CrawlDefinition(outputs=("b-{tick}.csv", "a.csv"))
    one = schedule("a", every_s=60.0, again=True, keep=1, folder=str(own), crawl=outputs)
    async with open_store(str(folder / "data"), create=True) as store:
        for _ in range(2):
            await remove_run(store, one, RUN, folders=[], settings=Settings())
    assert not (own / f"b-{STAMP}.csv").exists()
    assert not (own / f"b-{STAMP}.csv.shoal.lock").exists()
    assert (own / "a.csv").exists()
