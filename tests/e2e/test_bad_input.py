"""What people get wrong, and what machines do to them: one line that helps, a documented code, nothing lost."""

import os
import resource
import signal
import socket
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.e2e.command import (
    DONE,
    HASTY,
    NO_RETRIES,
    PAGES,
    QUICK,
    SHOAL,
    TIMEOUT,
    Ran,
    ended,
    records,
    shoal,
    started,
    surroundings,
)


def finishes_and_verifies(shop: str, folder: Path, *options: str) -> None:
    """The same command resumes after the failure and finishes with every item once."""
    ran = shoal("crawl", shop, *QUICK, *options, "--json", cwd=folder, env=HASTY)
    assert ran.code == 0, ran.err
    assert ran.json["counts"]["done"] == DONE
    urls = Counter(record["url"] for record in records(folder / ran.json["outputs"][0]))
    assert (len(urls), max(urls.values())) == (PAGES, 1)
    verified = shoal("verify", "--deep", "--store", ran.json["store"], cwd=folder)
    assert verified.code == 0, verified.out


# --- what people type --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("crawl", "https://a.test/", "--max-page", "5"),
            "no such option: --max-page; did you mean --max-pages?",
        ),
        (
            ("crawl", "https://a.test/", "--concurrency", "0"),
            "--concurrency: must be a whole number from 1 to 10,000",
        ),
        (
            ("crawl", "https://a.test/", "--out", "items.xyz"),
            "output 'items.xyz': the suffix chooses the format",
        ),
        (("crawl", "https://a.test/", "--item", "name=[["), "item name: not a CSS selector: '[['"),
        (("status", "--store", "nowhere"), "there is no store at nowhere"),
        (("dlq", "replay", "--store", "nowhere"), "there is no store at nowhere"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest_one(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    ran = shoal(*arguments, cwd=tmp_path)
    assert ran.code == 1
    assert ran.complaint.startswith(told)
    assert not (tmp_path / "nowhere").exists()


def test_an_unknown_settings_key_names_the_file_and_the_nearest_known_one(tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text("[crawl]\nraet = 1\n")
    ran = shoal("crawl", "https://a.test/", cwd=tmp_path)
    assert (ran.code, ran.complaint) == (1, "shoal.toml: unknown key crawl.raet; did you mean crawl.rate?")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nameservers = 'ns.example'", "crawl.nameservers: 'ns.example' is not an address"),
        ("ca_file = 'nowhere.pem'", "crawl.ca_file: nowhere.pem: No such file or directory"),
        ("ca_file = 'shoal.toml'", "crawl.ca_file: shoal.toml holds no certificates in PEM"),
    ],
)
def test_a_bad_setting_is_reported_before_anything_is_fetched(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "shoal.toml").write_text(f"[crawl]\n{line}\n")
    ran = shoal("crawl", "https://a.test/", cwd=tmp_path)
    assert ran.code == 1
    assert ran.complaint.startswith(told)


def test_a_secret_in_the_settings_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text('[crawl.headers]\nAuthorization = "hunter2\\u0000"\n')
    ran = shoal("crawl", "https://a.test/", "-vv", cwd=tmp_path)
    assert ran.code == 1
    assert "hunter2" not in ran.out + ran.err


# --- spiders -----------------------------------------------------------------------------------------

SPIDERS = {
    "a syntax error": ("def f(:\n", "spider.py:1: SyntaxError"),
    "an error while loading": ("\n\n1 / 0\n", "spider.py:3: ZeroDivisionError: division by zero"),
    "a wrong option": (
        "import shoal\nspider = shoal.Spider('x', start='https://a.test/', raet=1)\n",
        "spider.py:2: spider 'x': unknown option 'raet'; did you mean 'rate'?",
    ),
}


@pytest.mark.parametrize(("code", "told"), SPIDERS.values(), ids=SPIDERS)
def test_a_spider_that_cannot_be_loaded_is_named_with_the_line(tmp_path: Path, code: str, told: str) -> None:
    (tmp_path / "spider.py").write_text(code)
    ran = shoal("crawl", "spider.py", cwd=tmp_path)
    assert ran.code == 1
    assert ran.complaint.startswith(told)


def test_one_bad_seed_among_many_is_named_and_nothing_is_touched(tmp_path: Path) -> None:
    seeds = [f"https://a.test/{n}" for n in range(1000)]
    seeds[500] = "https://a.test:99999/"
    (tmp_path / "spider.toml").write_text(
        f'name = "x"\nstart = {seeds!r}\n[[page]]\n[page.item]\ntitle = "title::text"\n'
    )
    ran = shoal("crawl", "spider.toml", cwd=tmp_path)
    assert ran.code == 1
    assert "https://a.test:99999/" in ran.complaint
    assert not (tmp_path / "shoal-data").exists()


def test_a_spider_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "spider.py").mkdir()
    ran = shoal("crawl", "spider.py", cwd=tmp_path)
    assert (ran.code, ran.complaint) == (1, "spider.py: cannot be read: Is a directory")


# --- places ------------------------------------------------------------------------------------------


def test_an_unreachable_start_url_ends_with_the_reason(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = shoal("crawl", f"http://127.0.0.1:{port}/", *QUICK, cwd=tmp_path, env=NO_RETRIES)

    assert ran.code == 10
    expected = f"shoal: no page was fetched: http://127.0.0.1:{port}/: connect: "
    assert ran.err.splitlines()[-1].startswith(expected)


def test_a_name_that_does_not_exist_ends_with_the_reason(tmp_path: Path) -> None:
    ran = shoal("crawl", "http://nowhere.invalid/", cwd=tmp_path, env=NO_RETRIES)
    assert ran.code == 10
    assert ran.err.splitlines()[-1].startswith("shoal: no page was fetched: http://nowhere.invalid/: dns")


def test_an_unwritable_output_is_reported_before_anything_is_fetched(shop: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.jsonl").mkdir()
    for out in ("file/items.jsonl", "folder.jsonl", "/proc/items.jsonl"):
        ran = shoal("crawl", shop, *QUICK, "--out", out, cwd=tmp_path)
        assert ran.code == 1
        assert ran.complaint.startswith(f"output {out}: ")
    finishes_and_verifies(shop, tmp_path, "--out", "good.jsonl")


def test_an_output_of_another_program_is_not_changed(shop: str, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"precious": 1}\n')
    ran = shoal("crawl", shop, *QUICK, "--out", "mine.jsonl", cwd=tmp_path)
    assert ran.code == 1
    assert "not written" in ran.complaint
    assert (tmp_path / "mine.jsonl").read_text() == '{"precious": 1}\n'


@pytest.mark.parametrize("store", ["file", "/proc/store"])
def test_a_store_that_cannot_be_created_is_reported(tmp_path: Path, store: str) -> None:
    (tmp_path / "file").touch()
    ran = shoal("crawl", "https://a.test/", "--store", store, cwd=tmp_path)
    assert ran.code in (1, 4)
    assert ran.complaint.startswith(store)


def test_a_store_of_a_newer_version_is_refused_and_not_changed(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, "--max-pages", "5", cwd=tmp_path)
    [database] = tmp_path.rglob("store.db")
    with sqlite3.connect(database) as connection:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.close()

    for arguments in (("crawl", shop, *QUICK), ("status",)):
        ran = shoal(*arguments, cwd=tmp_path)
        assert ran.code == 1
        assert "written by a newer Shoal" in ran.complaint

    with sqlite3.connect(database) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    finishes_and_verifies(shop, tmp_path)


def test_a_file_that_is_not_a_store_is_refused_and_not_changed(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shoal-data").mkdir()
    (tmp_path / "shoal-data" / "store.db").write_bytes(b"my diary\n" * 1000)
    ran = shoal("crawl", shop, *QUICK, cwd=tmp_path)
    assert ran.code == 1
    assert "store.db" in ran.complaint
    assert (tmp_path / "shoal-data" / "store.db").read_bytes() == b"my diary\n" * 1000


def test_two_processes_cannot_run_one_crawl(shop: str, tmp_path: Path) -> None:
    with started("crawl", shop, "--allow-private", "--rate", "1", cwd=tmp_path) as first:
        while not list(tmp_path.rglob("*.jsonl")):
            with suppress(subprocess.TimeoutExpired):
                first.wait(0.05)
        second = shoal("crawl", shop, *QUICK, cwd=tmp_path)
        replay = shoal("dlq", "replay", "--class", "dns", cwd=tmp_path)
        status = shoal("status", "--json", cwd=tmp_path)
        first.send_signal(signal.SIGINT)
        assert ended(first).code == 3

    assert second.code == replay.code == 4
    assert f"is being run by process {first.pid}: wait until that ends" in second.complaint
    assert status.code == 0
    assert status.json["running"] is True
    finishes_and_verifies(shop, tmp_path)


# --- full disks --------------------------------------------------------------------------------------


def shoal_with_small_files(limit: int, *arguments: str, cwd: Path) -> Ran:
    """Run a command that cannot make any file larger than `limit` bytes."""
    done = subprocess.run(
        [*SHOAL, *arguments],
        cwd=cwd,
        env=surroundings(HASTY),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_file_size_limit_ends_the_crawl_and_loses_nothing(shop: str, tmp_path: Path) -> None:
    ran = shoal_with_small_files(150_000, "crawl", shop, *QUICK, "--quiet", cwd=tmp_path)
    assert ran.code in (1, 4)
    assert "Traceback" not in ran.err
    finishes_and_verifies(shop, tmp_path)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_disk_ends_the_crawl_and_loses_nothing(shop: str, tmp_path: Path) -> None:
    with small_disk(tmp_path, "400k"):
        ran = shoal("crawl", shop, *QUICK, "--quiet", cwd=tmp_path, env=HASTY)
        assert ran.code == 4
        assert "full" in ran.complaint or "No space left" in ran.complaint

        subprocess.run(["mount", "-o", "remount,size=64m", str(tmp_path)], check=True)
        finishes_and_verifies(shop, tmp_path)


def test_a_summary_that_cannot_be_written_is_a_failure(shop: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [*SHOAL, "crawl", shop, *QUICK, "--max-pages", "5"],
            cwd=tmp_path,
            env=surroundings(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "shoal: cannot write the result: No space left on device"
    finishes_and_verifies(shop, tmp_path)
