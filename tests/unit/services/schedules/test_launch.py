"""What a schedule of a shared store may make a scheduler do on its machine."""

from pathlib import Path

import pytest

from shoal.model.settings import CrawlSettings, Settings
from shoal.services.remote.processes import SubmissionRules
from shoal.services.schedules.launch import command_of, refusal
from shoal.stores.contract.schedules import RunState, Schedule, ScheduledRun


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / "own"
    for place in (own, tmp_path / "spiders", tmp_path / "other"):
        place.mkdir()
        for name in ("books.py", "seeds.txt", "shoal.toml", "items.jsonl"):
            (place / name).write_text("")
    (own / "link.py").symlink_to(tmp_path / "other" / "books.py")
    return own


def judged(folder: Path, *arguments: str, where: str = ".") -> str:
    schedule = Schedule(name="a", arguments=arguments, folder=str(folder / where), every_s=60.0)
    return refusal(schedule, (folder, folder.parent / "spiders"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("https://a.example/", "--follow=/", "--depth", "2"),
        ("books.py:shop", "--seeds", "seeds.txt", "-a", "x=/etc/passwd"),
        ("../spiders/books.py",),
        ("books.py", "--out", "../other/items.jsonl"),  # a worker decides about it
        ("books.py", "--out=/tmp/items-{tick}.jsonl"),
        ("not-there.py", "x" * 5000),
    ],
)
def test_files_below_its_folders_and_outputs_are_allowed(folder: Path, arguments: tuple[str, ...]) -> None:
    assert judged(folder, *arguments) == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("../other/books.py",),
        ("../other/books.py:shop",),
        ("link.py",),
        ("https://a.example/", "--seeds", "../other/seeds.txt"),
        ("https://a.example/", "--seeds=/etc/passwd"),
        ("https://a.example/", "--config=../other/shoal.toml"),
        ("https://a.example/", "--store=redis://other.example"),
    ],
)
def test_other_files_and_stores_are_refused(folder: Path, arguments: tuple[str, ...]) -> None:
    assert judged(folder, *arguments)


def test_a_folder_outside_is_refused_and_one_that_is_not_here_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert judged(folder, "https://a.example/", where="../other")
    assert judged(folder, "books.py", where="/not/on/this/machine") == ""


def test_a_server_starts_crawls_with_what_it_may_do_itself_and_the_schedule_has_the_last_word() -> None:
    rules = SubmissionRules(Settings(crawl=CrawlSettings(allow_private=True)), config="/etc/shoal.toml")
    schedule = Schedule(name="a", arguments=("b.py", "--config=own.toml"), folder="", every_s=60.0)
    run = ScheduledRun(tick=0.0, state=RunState.STARTING, crawl="a-1")
    command = command_of(schedule, run, shared=False, own=rules.own_arguments)
    wanted = ["crawl", "--allow-private", "--config=/etc/shoal.toml", "b.py", "--config=own.toml"]
    assert command[: len(wanted)] == wanted
