"""Recipes of the cookbook that need more than a shop and a terminal: cron and systemd, PostgreSQL, a notebook."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from docs.making.session import ROOT, SHOP, SPIDER, files
from nbclient import NotebookClient
from tests.e2e.command import TIMEOUT, records, surroundings
from tests.servers.postgres import PASSWORD, ask
from tests.servers.shared import shared_database
from tests.site.books import BOOKS
from tests.site.bookshop import open_bookshop

PAGE = (ROOT / "docs" / "cookbook.md").read_text()
HERE = Path(sys.executable).parent
LOCAL = {"SHOAL_CRAWL_ALLOW_PRIVATE": "true", "SHOAL_CRAWL_RATE": "0", "SHOAL_RETRY_BASE": "0.01"}
DATABASE = "postgresql://ann@127.0.0.1:5432/books"


@pytest.fixture
def shop() -> Iterator[str]:
    with open_bookshop() as address:
        yield f"http://{address}"


def blocks(heading: str, kind: str) -> list[str]:
    """Return the blocks of one kind below a heading."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{kind}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


def typed(command: str, folder: Path, path: str, **env: str) -> None:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=surroundings({**LOCAL, **env, "PATH": path}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), f"{command}\n{done.stdout}{done.stderr}"


def test_the_lines_for_cron_and_systemd_replace_the_file_every_night(shop: str, tmp_path: Path) -> None:
    (tmp_path / "news.py").write_text(files(PAGE)["news.py"].replace(SHOP, shop))
    [crontab], [service, _] = (blocks("Every night, by cron or systemd", kind) for kind in ("text", "ini"))
    [cron] = re.findall(r"^30 3 \* \* \*  (.+)$", crontab, re.MULTILINE)
    unit = dict(re.findall(r"^(\w+)=(.+)$", service, re.MULTILINE))
    nights = []
    for line in (cron, f"cd {unit['WorkingDirectory']} && {unit['ExecStart']}", cron):
        command = line.replace("/srv/news/.venv/bin", str(HERE)).replace("/srv/news", str(tmp_path))
        typed(command, Path("/"), "/usr/bin:/bin")  # as cron has it
        nights.append({item["url"]: item["text"] for item in records(tmp_path / "news.jsonl")})

    assert [len(night) for night in nights] == [2, 2, 2]
    assert nights[0] == nights[2] != nights[1]  # the weather changes from visit to visit


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    units = blocks("Every night, by cron or systemd", "ini")
    for text in units:
        name = Path(text.splitlines()[0].removeprefix("# ")).name
        (tmp_path / name).write_text(text.replace("/srv/news/.venv/bin/shoal", f"{HERE}/shoal"))
    keys = set(re.findall(r"^(\w+)=", "".join(units), re.MULTILINE))
    assert {"OnCalendar", "ExecStart", "WorkingDirectory"} <= keys
    if program := shutil.which("systemd-analyze"):
        command = [
            program,
            "verify",
            "--man=no",
            str(tmp_path / "news.timer"),
            str(tmp_path / "news.service"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert [line for line in done.stderr.splitlines() if "news." in line] == []


def test_a_crawl_on_one_machine_fills_a_table_and_replaces_its_rows(shop: str, tmp_path: Path) -> None:
    heading = "PostgreSQL on one machine"
    (tmp_path / "books.py").write_text(SPIDER.replace(SHOP, shop))
    [commands], [view] = blocks(heading, "sh"), blocks(heading, "sql")
    with shared_database() as dsn:
        password, output = tmp_path / "pgpass", dsn.replace("postgres@", "asked@")
        password.write_text(f"*:*:*:asked:{PASSWORD}\n")
        password.chmod(0o600)
        for line in commands.splitlines():
            assert DATABASE in line
            typed(line.replace(DATABASE, output), tmp_path, f"{HERE}:/bin", PGPASSFILE=str(password))
        ask(dsn, view)
        rows = ask(dsn, "SELECT title, price FROM prices")

    assert len(rows) == len({row["title"] for row in rows}) == BOOKS
    assert all(0 < row["price"] < 100 for row in rows)


def test_the_cells_run_in_a_notebook(shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LOCAL.items():
        monkeypatch.setenv(name, value)
    cells = [cell.replace(SHOP, shop) for cell in blocks("In a notebook", "python")]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()

    shown = ["".join(str(output) for output in cell.outputs) for cell in notebook.cells]
    assert "price" in shown[1]
    assert f"{BOOKS} {BOOKS}.99" in shown[2]
    assert len((tmp_path / "books.csv").read_text().splitlines()) == BOOKS + 1
