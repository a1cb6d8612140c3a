"""`shoal export`: items in any format, pages as one WARC file."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("name", ["x.jsonl", "x.sqlite", "x.parquet", "x.parquet/"])
def test_every_format_takes_all_items(
    shop: Archived, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "--out", f"{tmp_path}/{name}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == PRODUCTS
    assert [path.name for path in tmp_path.iterdir()] == [name.rstrip("/")]
    assert (tmp_path / name).is_dir() == name.endswith("/")


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


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Archived:
    """A crawl whose items are in no JSONL file."""
    outs = ("--out=items.csv", "--out=items.db", "--out=items.parquet", "--out=parts.parquet/")
    return crawl_shop(tmp_path_factory.mktemp("tables") / "shop", *outs)


OUTPUTS = ["items.csv", "items.db", "items.parquet", "parts.parquet/"]


@pytest.fixture(params=OUTPUTS)
def only(request: pytest.FixtureRequest, tables: Archived, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The only output of the crawl that is left."""
    monkeypatch.chdir(tables.folder)
    hidden = tables.folder / "hidden"
    hidden.mkdir()
    for name in OUTPUTS:
        if name != request.param:
            (tables.folder / name).rename(hidden / name)
    yield str(request.param)
    for path in hidden.iterdir():
        path.rename(tables.folder / path.name)
    hidden.rmdir()


def as_text(found: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{name: str(value) for name, value in record.items()} for record in found]


def test_items_are_exported_from_any_output_that_has_them_all(
    only: str, shop_items: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.jsonl"
    assert run(["export", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["items"], told["source"]) == (
        PRODUCTS,
        str(Path(only).absolute()) + "/" * only.endswith("/"),
    )
    assert as_text(records(out)) == shop_items

    chosen = ["export", "--out", str(out), "--match", "/product/plain-cast-net"]
    if only == "items.db":
        assert run(chosen) == 1
        assert "in which an item replaces none" in capsys.readouterr().err
    else:
        assert run(chosen) == 0
        assert [record["title"] for record in records(out)] == ["Plain Cast Net"]


@pytest.fixture(scope="module")
def shop_items(tables: Archived) -> list[dict[str, str]]:
    with (tables.folder / "items.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("target", ["x.jsonl", "x.csv", "x.sqlite", "x.parquet", "x.parquet/", "-"])
def test_items_are_copied_from_any_file_to_any_format_without_a_store(
    only: str,
    shop_items: list[dict[str, Any]],
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    source = os.path.abspath(only) + "/" * only.endswith("/")
    monkeypatch.chdir(tmp_path)

    assert run(["export", "--from", source, "--out", target]) == 0

    told = capfd.readouterr()
    assert f"{source}: {PRODUCTS} items written to {target}\n" in (told.err if target == "-" else told.out)
    if target == "-":
        found = [json.loads(line) for line in told.out.splitlines()]
    else:
        assert run(["export", "--from", target, "--out", "back.jsonl"]) == 0
        found = records(tmp_path / "back.jsonl")
    assert as_text(found) == shop_items


def test_items_are_made_again_from_the_archive(shop: Archived, tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    changed = shop.spider("changed.py", ('"depth"', '"links_away"'))
    made = ["export", "--from", "archive", "--spider", changed, "--out", str(out)]
    ran = shop.run(*made, "--json")
    assert (ran.code, ran.json["items"], ran.json["pages"]) == (0, PRODUCTS, DONE - 1)  # a redirect has none
    assert all("links_away" in record for record in records(out))
    assert shop.run(*made, "--match", "/product/plain-cast-net").out == (
        f"shop: 1 item of 1 page written to {out}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--from archive --out x.csv", "--from archive needs --spider SPIDER"),
        ("--spider shop.py --out x.csv", "--spider is for --from archive"),
        ("--from items.jsonl --out items.jsonl", "--from and --out are the same"),
        ("--from items.jsonl --out x.csv --match a", "leave out --crawl and the choice of pages"),
        ("--from items.jsonl --out x.warc.gz", "pages come from the archive of a crawl"),
        ("--from nothing.csv --out x.jsonl", "output nothing.csv cannot be read: No such file"),
        ("--from shop.py --out x.jsonl", "the suffix chooses the format"),
    ],
)
def test_sources_that_cannot_be_meant_are_refused(
    shop: Archived, arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", *arguments.split()]) == 1
    assert told in capsys.readouterr().err
    assert not [path for path in shop.folder.iterdir() if path.name.startswith((".shoal", "x."))]
