"""`shoal reparse`: a changed spider over archived pages, without a request."""

from pathlib import Path

import pytest
from tests.e2e.archived import PRODUCTS, SPIDER, Archived, crawl_shop, remade
from tests.e2e.command import HASTY, QUICK, records, shoal

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.cli.main import run


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Archived:
    return crawl_shop(tmp_path_factory.mktemp("reparse") / "shop")


@pytest.fixture
def shop(crawled: Archived) -> Archived:
    return remade(crawled)


def test_the_same_spider_finds_the_same_items_although_the_site_is_gone(shop: Archived) -> None:
    before = (shop.folder / "items.jsonl").read_bytes()
    ran = shop.run("reparse", "shop.py", "--json")

    assert ran.code == 0, ran.err
    assert ran.json["items"] == PRODUCTS
    assert ran.json["pages"] == PRODUCTS + 5
    assert ran.json["differences"]["items_before"] == PRODUCTS
    assert ran.json["differences"]["pages_changed"] == 0
    assert (shop.folder / "items.jsonl").read_bytes() == before
    assert shop.run("verify").code == 0


def test_exactly_the_changed_fields_are_named(shop: Archived) -> None:
    changed = shop.spider(
        "new.py",
        ('page.css(".price::text").get()', 'page.css(".price::text").get().strip("£")'),
        ('"title"', '"name"'),
    )
    ran = shop.run("reparse", changed, "--json")

    assert ran.code == 0, ran.err
    found = ran.json["differences"]
    counts = {
        name: (field["added"], field["removed"], field["changed"]) for name, field in found["fields"].items()
    }
    assert counts == {"price": (0, 0, PRODUCTS), "title": (0, PRODUCTS, 0), "name": (PRODUCTS, 0, 0)}
    assert found["pages_changed"] == found["items_changed"] == PRODUCTS
    example = found["fields"]["price"]["examples"][0]
    assert example["before"] == f"£{example['after']}"
    assert example["url"].startswith(f"{shop.site}product/")


def test_differences_are_printed_with_examples(shop: Archived) -> None:
    changed = shop.spider("new.py", ('"price": page.css(".price::text").get(),', ""))
    ran = shop.run("reparse", changed, "--match", "/product/plain-cast-net")

    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("shop: 1 page parsed again without a request, 1 item, in ")
    assert lines[1:] == [
        "different on 1 page: 1 item changed, 0 added, 0 removed (1 before, 1 now)",
        "field price: removed in 1",
        f'    "£2.50" -> nothing  {shop.site}product/plain-cast-net.html',
    ]


def test_two_versions_of_a_spider_can_be_compared_without_the_items(shop: Archived) -> None:
    (shop.folder / "items.jsonl").unlink()
    changed = shop.spider("new.py", ("page.depth", "page.depth + 1"))

    refused = shop.run("reparse", changed)
    assert refused.code == 1
    assert "no JSONL output with all its 40 items" in refused.complaint
    assert "--against OLD.py" in refused.complaint
    ran = shop.run("reparse", changed, "--against", "shop.py", "--json")
    assert ran.code == 0, ran.err
    assert list(ran.json["differences"]["fields"]) == ["depth"]
    assert ran.json["differences"]["fields"]["depth"]["changed"] == PRODUCTS


def test_commit_writes_the_new_items_once_and_replaces_the_file_at_the_end(shop: Archived) -> None:
    out = shop.folder / "new.jsonl"
    out.write_text("precious\n")
    broken = shop.spider("broken.py", ("import shoal", "import nowhere"))

    assert shop.run("reparse", broken, "--commit", "--out", "new.jsonl").code == 1
    assert out.read_text() == "precious\n"
    changed = shop.spider("new.py", ('"depth"', '"links_away"'))
    ran = shop.run("reparse", changed, "--commit", "--out", "new.jsonl")
    assert ran.code == 0, ran.err
    found = records(out)
    assert len({record["sku"] for record in found}) == len(found) == PRODUCTS
    assert all(record["links_away"] > 0 for record in found)
    assert ran.out.splitlines()[-1] == "40 items written to new.jsonl"
    assert not list(shop.folder.glob(".shoal-draft-*"))


def test_pages_that_fail_are_counted_by_reason_and_yield_no_items(shop: Archived) -> None:
    failing = shop.spider("new.py", ('page.data["list"]', 'page.data["lists"]'))
    ran = shop.run("reparse", failing, "--json")

    assert ran.code == 0, ran.err
    [(reason, pages)] = ran.json["faults"].items()
    assert "KeyError: 'lists'" in reason
    assert pages == ran.json["differences"]["items_removed"] == PRODUCTS
    assert len(ran.json["fault_urls"][reason]) == 3


def test_pages_are_filtered(shop: Archived) -> None:
    for options, pages in (
        (("--match", "/product/plain-", "--since", "2000-01-01", "--until", "2999-01-01T00:00+02:00"), 5),
        (("--limit", "7", "--status", "200"), 7),
        (("--since", "2999-01-01"), 0),
    ):
        ran = shop.run("reparse", "shop.py", *options, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["pages"] == pages
        assert ran.json["differences"]["pages_changed"] == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--out x.jsonl", "add --commit"),
        ("--commit", "--commit needs --out PATH"),
        ("--commit --out items.jsonl", "the crawl itself writes there"),
        ("--commit --out x.docx", "the suffix chooses the format"),
        ("--commit --out .", "there is a folder already"),
        ("--crawl other", "no crawl named 'other'; --crawl chooses one of: shop"),
        ("--match (", "not a regular expression"),
        ("--since yesterday", "must be a date, for example"),
    ],
)
def test_bad_options_are_refused_with_advice(
    crawled: Archived,
    arguments: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(crawled.folder)
    assert run(["reparse", "shop.py", *arguments.split()]) == 1
    assert told in capsys.readouterr().err


def test_fields_by_selector_need_no_spider(shop: Archived, tmp_path: Path) -> None:
    out = str(tmp_path / "names.jsonl")
    listings = ("--match", "/$|/category/", "--limit", "3")  # products were asked for by a handler's name
    ran = shop.run(
        *("reparse", shop.site, "--crawl", "shop", "--item", "name=h1", "--commit", "--out", out), *listings
    )
    assert ran.code == 0, ran.err
    assert [set(record) for record in records(tmp_path / "names.jsonl")] == [{"url", "name"}] * 3


def test_pages_of_dead_letters_are_parsed_too(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(SPIDER.replace('page.data["list"]', 'page.data["lists"]'))
    (tmp_path / "shop.py").write_text(SPIDER)
    with open_shop(Shop(categories=1), latency=0.001) as site:
        shoal("crawl", "broken.py", site, *QUICK, "--out", "items.jsonl", cwd=tmp_path, env=HASTY)

    ran = shoal("reparse", "shop.py", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert ran.json["differences"]["items_before"] == 0
    assert ran.json["differences"]["items_added"] == PRODUCTS
