"""What a schedule of a shared store may make a scheduler do on its machine."""

from pathlib import Path

import msgspec
import pytest

from shoal.model.configuration.crawl_definition import parse_command
from shoal.model.errors import Misconfigured
from shoal.model.sandbox import SandboxMode
from shoal.model.settings import CrawlSettings, ParseSettings, Settings
from shoal.services.schedules.launch import LaunchRules, allowed_crawl, command_of, settings_of
from shoal.services.schedules.manage import read_schedules
from shoal.services.schedules.serve import launch_rules
from shoal.stores.contract.schedules import RunState, Schedule, ScheduledRun

RUN = ScheduledRun(tick=0.0, state=RunState.STARTING, crawl="a-1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own = tmp_path / "own"
    for place in (own, tmp_path / "spiders", tmp_path / "other"):
        place.mkdir()
        for name in ("books.py", "seeds.txt", "shoal.toml", "items.jsonl"):
            (place / name).write_text("")
    (own / "link.py").symlink_to(tmp_path / "other" / "books.py")
    monkeypatch.chdir(own)
    return own


def started(folder: Path, *typed: str, where: str = ".", databases: tuple[str, ...] = ()) -> list[str]:
    """Return the command of a schedule of a shared store; raise `Misconfigured` if it is not allowed."""
    schedule = Schedule(name="a", folder=str(folder / where), crawl=parse_command(typed), every_s=60.0)
    rules = LaunchRules(roots=(folder.parent / "spiders",), databases=databases)
    crawl = allowed_crawl(schedule, rules)
    return command_of(msgspec.structs.replace(schedule, crawl=crawl), RUN, shared=True)


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (("https://a.example/", "--follow=/", "--depth", "2"), ["--follow=/", "--depth=2"]),
        (("books.py:shop", "--seeds", "seeds.txt", "-a", "x=/etc/passwd"), ["--seeds={own}/seeds.txt", "{own}/books.py:shop"]),
        (("../spiders/books.py",), ["{own}/../spiders/books.py"]),
        (("books.py", "--out", "../other/items.jsonl"), ["--out={own}/../other/items.jsonl"]),  # workers check it
        (("books.py", "--out=/tmp/items-{tick}.jsonl"), ["--out=/tmp/items-19700101T000000Z.jsonl"]),
        (("shop.books:spider", "--query", "SELECT url FROM attempts"), ["shop.books:spider"]),
        (("https://a.example/", "--follow", "--out", "--depth=1"), ["--follow=--out"]),
    ],
)  # fmt: skip
def test_files_below_its_folders_and_outputs_are_allowed(
    folder: Path, typed: tuple[str, ...], wanted: list[str]
) -> None:
    command = started(folder, *typed)
    for one in wanted:
        place = one.replace("{own}", str(folder))
        assert place in command or str(Path(place).resolve()) in command


@pytest.mark.parametrize(
    "typed",
    [
        ("../other/books.py",),
        ("../other/books.py:shop",),
        ("link.py",),
        ("/proc/self/cwd/../other/books.py",),
        ("https://a.example/", "--seeds", "../other/seeds.txt"),
        ("https://a.example/", "--seeds=/etc/passwd"),
        ("https://a.example/", "--seeds", "a\0b"),
        ("https://a.example/", "--config=shoal.toml"),
        ("https://a.example/", "--config=../other/shoal.toml"),
        ("https://a.example/", "--proxy=exits.txt"),
        ("--follow", "--out", "../other/books.py"),
        ("--user-agent", "--out", "--seeds=../other/seeds.txt", "--query=SELECT 1"),
        ("--seeds=postgresql://db.example/shop", "--query=SELECT 1"),
        ("--seeds=seeds.txt", "--query=SELECT 1"),  # a database has to be named, also one below the folder
    ],
)
def test_other_files_databases_and_settings_are_refused(folder: Path, typed: tuple[str, ...]) -> None:
    with pytest.raises(Misconfigured):
        started(folder, *typed)


def test_a_database_that_the_operator_has_named_may_be_read(folder: Path) -> None:
    database = "postgresql://db.example/shop"
    command = started(folder, f"--seeds={database}", "--query=SELECT 1", databases=(database,))
    assert f"--seeds={database}" in command


def test_a_folder_outside_is_refused_and_one_that_is_not_here_is_not_used(folder: Path) -> None:
    with pytest.raises(Misconfigured, match="where the scheduler was started"):
        started(folder, "https://a.example/", where="../other")
    assert f"{folder}/books.py" in started(folder, "books.py", where="/not/on/this/machine")


def test_a_command_line_of_an_earlier_version_is_read_as_fields(folder: Path) -> None:
    earlier = {"name": "a", "folder": str(folder), "every_s": 60.0}
    fine = earlier | {"arguments": ["books.py", "--out", "a.jsonl", "--rate=1"]}
    swallowed = earlier | {"name": "b", "arguments": ["--follow", "--out", "../other/books.py"]}
    foreign = earlier | {"name": "c", "arguments": ["books.py", "--store=redis://other.example"]}
    records = {f"s/{one['name']}": msgspec.msgpack.encode(one) for one in (fine, swallowed, foreign)}

    found, refused = read_schedules(records)

    assert found["a"].crawl == parse_command(["books.py", "--out", "a.jsonl", "--rate=1"])
    assert found["b"].crawl.follow == "--out"
    with pytest.raises(Misconfigured):
        allowed_crawl(found["b"], LaunchRules())
    assert list(refused) == ["c"]


def test_a_scheduler_starts_crawls_with_its_own_settings_and_the_sandbox_of_workers() -> None:
    private = Settings(crawl=CrawlSettings(allow_private=True))
    rules = launch_rules(private, config="/etc/shoal.toml")
    assert rules.sandbox is SandboxMode.REQUIRE
    assert launch_rules(Settings(parse=ParseSettings(sandbox="prefer"))).sandbox is SandboxMode.PREFER
    schedule = Schedule(name="a", folder="", crawl=parse_command(["b.py", "--config=own.toml"]), every_s=60.0)
    command = command_of(schedule, RUN, shared=False, own=rules.options)
    assert command[:3] == ["crawl", "--allow-private", "--config=/etc/shoal.toml"]
    assert command[-3:] == ["--config=own.toml", "--", "b.py"]  # in a folder, the schedule has the last word


def test_a_generation_keeps_its_archive_for_as_many_days_as_the_runs_that_are_kept() -> None:
    daily = Schedule(name="a", folder="", cron="0 3 * * *", again=True, keep=7, timezone="UTC")
    found = settings_of(daily, RUN)
    assert (found["SHOAL_RECRAWL_KEEP"], found["SHOAL_ARCHIVE_KEEP_DAYS"]) == ("6", "7")
    often = msgspec.structs.replace(daily, cron="", every_s=60.0, keep=1)
    assert settings_of(often, RUN)["SHOAL_ARCHIVE_KEEP_DAYS"] == "1"
    assert "SHOAL_ARCHIVE_KEEP_DAYS" not in settings_of(msgspec.structs.replace(daily, keep=0), RUN)
