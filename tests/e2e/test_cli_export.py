"""`shoal export`: items in any format, pages as one WARC file."""

import csv
import json
from pathlib import Path

import pytest
from tests.e2e.archived import PRODUCTS, Archived, crawl_shop
from tests.e2e.command import DONE, records
from warcio.archiveiterator import ArchiveIterator

from shoal.cli.main import run


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Archived:
    return crawl_shop(tmp_path_factory.mktemp("export") / "shop")


@pytest.fixture
def shop(crawled: Archived, monkeypatch: pytest.MonkeyPatch) -> Archived:
    monkeypatch.chdir(crawled.folder)
    return crawled


def test_items_become_a_table(shop: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--out", str(tmp_path / "x.csv")]) == 0
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    before = records(shop.folder / "items.jsonl")
    assert rows == [{name: str(value) for name, value in record.items()} for record in before]
    assert capsys.readouterr().out.startswith(f"shop: {PRODUCTS} items of {DONE} pages written to ")


@pytest.mark.parametrize("name", ["x.jsonl", "x.sqlite", "x.parquet"])
def test_every_format_takes_all_items(
    shop: Archived, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "--out", str(tmp_path / name), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == PRODUCTS
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_items_are_filtered_by_their_page(shop: Archived, tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    assert run(["export", "--out", str(out), "--match", "/product/plain-cast-net"]) == 0
    assert [record["title"] for record in records(out)] == ["Plain Cast Net"]


def test_exported_items_on_standard_output_are_not_mixed_with_messages(shop: Archived) -> None:
    ran = shop.run("export", "--out", "-", "--match", "/product/plain-")
    assert ran.code == 0
    assert len([json.loads(line) for line in ran.out.splitlines()]) == 5
    assert "5 items of 5 pages" in ran.err


def test_pages_become_one_warc_file_that_other_tools_read(
    shop: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.warc.gz"
    assert run(["export", "--out", str(out), "--match", "/product/", "--limit", "9"]) == 0

    assert capsys.readouterr().out == f"shop: 9 pages written to {out}\n"
    kinds = []
    with out.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            record.content_stream().read()
            kinds.append((record.rec_type, record.rec_headers["WARC-Target-URI"]))
    assert kinds[0] == ("warcinfo", None)
    assert [kind for kind, _ in kinds[1:]] == ["response", "request"] * 9
    assert all("/product/" in url for _, url in kinds[1:])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--out items.jsonl", "the crawl itself writes there"),
        ("--out x.txt", "the suffix chooses the format"),
        ("--out x.csv --crawl other", "--crawl chooses one of: shop"),
        ("--out x.csv --store nowhere", "there is no store at nowhere"),
    ],
)
def test_bad_options_are_refused_with_advice(
    shop: Archived, arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", *arguments.split()]) == 1
    assert told in capsys.readouterr().err
    assert not [path for path in shop.folder.iterdir() if path.name.startswith((".shoal", "x."))]
