"""`shoal verify` finds what is wrong; `shoal status` tells what is there."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
from tests.e2e.command import DONE, HASTY, QUICK, shoal


def lose_an_item(folder: Path) -> None:
    lines = (folder / "items.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "items.jsonl").write_bytes(b"".join(lines[1:]))


def double_an_item(folder: Path) -> None:
    """Split one line in two, so that the length stays as it was."""
    text = (folder / "items.jsonl").read_bytes()
    (folder / "items.jsonl").write_bytes(text.replace(b",", b"\n", 1))


def lose_a_row(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "items.sqlite")) as database, database:
        database.execute("DELETE FROM items WHERE _id = 5")


def lose_rows(folder: Path) -> None:
    path = folder / "items.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)


def lose_a_part(folder: Path) -> None:
    [part] = (folder / "parts.parquet").iterdir()
    pq.write_table(pq.read_table(part, partitioning=None).slice(1), part)


def lose_a_page(folder: Path) -> None:
    [segment] = (folder / "shoal-data").rglob("*.warc.gz")
    segment.write_bytes(segment.read_bytes()[:1000])


def miscount(folder: Path) -> None:
    with sqlite3.connect(folder / "shoal-data" / "store.db") as connection:
        connection.execute("UPDATE crawl SET counts = json_set(counts, '$.done', 1)")
    connection.close()


def change_a_page(folder: Path) -> None:
    [segment] = (folder / "shoal-data").rglob("*.warc.gz")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)


def test_every_loss_duplicate_or_change_is_found(shop: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    outs = [f"--out=items.{ending}" for ending in ("jsonl", "csv", "sqlite", "parquet")]
    outs.append("--out=parts.parquet/")
    assert shoal("crawl", shop, *QUICK, *outs, "--quiet", cwd=whole, env=HASTY).code == 0
    # Outputs are known by their full path: each case happens where the crawl was, and is undone from a copy.
    shutil.copytree(whole, tmp_path / "copy")

    def verified(mishap: Callable[[Path], None], *options: str) -> tuple[int, str]:
        mishap(whole)
        ran = shoal("verify", *options, cwd=whole)
        shutil.rmtree(whole)
        shutil.copytree(tmp_path / "copy", whole)
        return ran.code, ran.out

    assert verified(lambda _: None, "--deep")[0] == 0
    for mishap, options, told in (
        (lose_an_item, (), "shorter than this crawl has left it"),
        (double_an_item, (), "it holds 46 lines, but 45 were written"),
        (lose_a_row, (), "items.sqlite holds 44 rows, but 45 were written there; put it back"),
        (lose_rows, (), "items.parquet holds 44 rows, but 45 were written there; put it back"),
        (lose_a_part, (), "parts.parquet holds 44 rows in its first 1 parts, but 45 were written there; put"),
        (lose_a_page, (), "beyond the end of archive segment"),
        (miscount, (), f"the counter of done says 1, the data {DONE}"),
        (change_a_page, ("--deep",), "archive: "),
    ):
        code, out = verified(mishap, *options)
        assert code == 5, mishap
        assert told in out
        assert "problem" in out.splitlines()[-1]


def test_status_and_verify_agree_in_json(shop: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shoal("crawl", shop, *QUICK, "--crawl", name, "--depth", "0", cwd=tmp_path)

    status = shoal("status", "--json", cwd=tmp_path).json
    verified = shoal("verify", "--crawl", "two", "--json", cwd=tmp_path).json

    assert [crawl["crawl"] for crawl in status["crawls"]] == ["one", "two"]
    assert [crawl["counts"]["done"] for crawl in status["crawls"]] == [1, 1]
    assert status["running"] is False
    assert verified["ok"] is True
    assert [crawl["name"] for crawl in verified["crawls"]] == ["two"]
    assert list(verified["crawls"][0]["outputs"].values()) == [1]
