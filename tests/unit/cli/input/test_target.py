import os
from pathlib import Path

import pytest

from shoal.cli.input.target import Target, read_fields, read_target
from shoal.model.errors import Misconfigured
from shoal.spider.source import PlainSpider, SpiderFile, SpiderModule


def test_urls_are_start_urls_in_canonical_form_of_a_crawl_named_after_the_first_host() -> None:
    target = read_target(["HTTPS://Shop.example:8443", "http://b.test/#top"], ["name=h1"])
    start = ("https://shop.example:8443/", "http://b.test/")
    assert target == Target(PlainSpider("shop.example:8443", start, {"name": "h1"}))


def test_a_python_file_is_a_spider_and_what_follows_are_its_start_urls(tmp_path: Path) -> None:
    spider = tmp_path / "books.py"
    spider.touch()
    assert read_target([str(spider), "https://a.test/"]) == Target(
        SpiderFile(str(spider)), ("https://a.test/",)
    )


def test_a_name_in_a_module_is_a_spider() -> None:
    expected = SpiderModule("my.spiders", "books", folder=os.getcwd())  # found in the folder of the command
    assert read_target(["my.spiders:books"]) == Target(expected)


def test_a_file_may_name_one_of_its_spiders_and_a_spider_its_arguments(tmp_path: Path) -> None:
    file = tmp_path / "many.py"
    file.touch()
    given = {"tag": ("x", "y=z"), "n": ("",)}
    source = read_target([f"{file}:books"], arguments=["tag=x", "n=", "tag=y=z"]).source
    assert source == SpiderFile(str(file), "books", given)
    with pytest.raises(Misconfigured, match=r"no such spider file: missing\.py"):
        read_target(["missing.py:books"])
    with pytest.raises(Misconfigured, match="-a is for spiders"):
        read_target(["https://a.example/"], arguments=["n=1"])


def test_a_spider_cannot_be_combined_with_item() -> None:
    with pytest.raises(Misconfigured, match="--item is for crawls without a spider"):
        read_target(["my.spiders:books"], ["name=h1"])


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (["example.com"], ["'example.com'", "did you mean https://example.com ?"]),
        (["localhost:8080"], ["did you mean https://localhost:8080 ?"]),
        (["missing.py"], ["no such spider file: missing.py"]),
        (["ftp://a.test/"], ["only http and https"]),
        (["file:///etc/passwd"], ["only http and https"]),
        (["https://"], ["not a valid URL"]),
        (["https://a.test/", "books.py"], ["'books.py' is not a URL", "only the first TARGET"]),
    ],
)
def test_anything_else_is_refused_with_advice(targets: list[str], names: list[str]) -> None:
    with pytest.raises(Misconfigured) as caught:
        read_target(targets)
    assert all(name in str(caught.value) for name in names), caught.value


def test_fields_are_names_and_selectors() -> None:
    assert read_fields(["name=h1", "link=a[href=x]"]) == {"name": "h1", "link": "a[href=x]"}


@pytest.mark.parametrize("item", ["price", "=.price", "price=", "a b=.x", "1st=.x"])
def test_a_malformed_field_is_refused_with_an_example(item: str) -> None:
    with pytest.raises(Misconfigured, match=r"--item price=\.price"):
        read_fields([item])


@pytest.mark.parametrize("items", [["a=.x", "a=.y"], ["url=.x"]])
def test_a_field_cannot_be_defined_twice(items: list[str]) -> None:
    with pytest.raises(Misconfigured, match="already"):
        read_fields(items)


def test_a_sitemap_alone_is_enough_and_names_the_crawl_after_its_host() -> None:
    target = read_target((), ("name=h1",), sitemaps=["https://a.test/sitemap.xml"])
    assert target == Target(PlainSpider("a.test", (), {"name": "h1"}))


@pytest.mark.parametrize("url", ["https://me:s3cret@a.test/", "https://me@a.test/", "http://:s3cret@a.test"])
def test_a_url_with_a_password_is_refused_and_not_printed(url: str) -> None:
    with pytest.raises(Misconfigured, match=r"a\.test: it holds a user name or a password") as refused:
        read_target([url])
    assert "s3cret" not in str(refused.value)
    assert read_target(["https://a.test/@me"]).source == PlainSpider("a.test", ("https://a.test/@me",), {})


@pytest.mark.parametrize("target", ["x" * 5_000, "\n" * 5_000, "a\0b.py", "x" * 5_000 + ".py"])
def test_a_name_that_no_file_can_have_is_refused_like_any_other(target: str) -> None:
    with pytest.raises(Misconfigured, match=r"not a URL, a spider file|no such spider file"):
        read_target([target])
