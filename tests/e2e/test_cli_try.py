"""`shoal try`: one URL through fetch and handler, without touching any crawl."""

import asyncio
from pathlib import Path

import pytest
from tests.e2e.command import PRIVATE, shoal
from tests.servers.process import program
from tests.site.written import Sheet, serving_written

SPIDER = """
import shoal

spider = shoal.Spider("shop", "{shop}", key="sku", follow="/product/|/category/")


@spider.page(r"/product/")
def product(page):
    yield {{"sku": page.css("[data-sku]::attr(data-sku)").get(), "cost": page.css(".cost::text").get()}}
    for row in page.css("article"):
        yield {{"sku": row.xpath(".//h1/text()").get() or "", "cost": row.css(".nothing").get()}}


@spider.page(r"/category/")
def listing(page):
    yield page.links("a")
    yield page.links("a.missing")
    yield {{"sku": page.xpath("//h9").get() or 1 / 0}}


@spider.page()
def home(page):
    yield page.links()
"""


@pytest.fixture
def folder(shop: str, tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SPIDER.format(shop=shop))
    return tmp_path


def test_items_requests_and_selectors_that_match_nothing_are_shown_and_nothing_is_stored(
    shop: str, folder: Path
) -> None:
    url = f"{shop}product/plain-cast-net.html"

    ran = shoal("try", "shop.py", url, "--json", cwd=folder, env=PRIVATE)

    assert ran.code == 0, ran.err
    tried = ran.json
    assert (tried["handler"], tried["status"], tried["problem"]) == ("product", 200, None)
    assert tried["items"] == [{"sku": "SH-1001", "cost": None}, {"sku": "Plain Cast Net", "cost": None}]
    assert tried["unmatched"] == ["css('.cost::text')", "css('.nothing')"]
    assert list(tried["seconds"]) == ["load spider", "robots.txt and pace", "response", "handler"]
    assert [path.name for path in folder.iterdir()] == ["shop.py"]


def test_the_first_start_url_is_the_default_and_links_out_of_scope_are_named(shop: str, folder: Path) -> None:
    ran = shoal("try", "shop.py", cwd=folder, env=PRIVATE)

    assert ran.code == 0, ran.err
    assert "handler: home (spider shop)" in ran.out
    assert f"    {shop}category/nets/" in ran.out
    assert "0 items\n" in ran.out


def test_a_handler_that_raises_is_shown_with_its_own_line_and_exits_with_2(shop: str, folder: Path) -> None:
    ran = shoal("try", "shop.py", f"{shop}category/sale/", cwd=folder, env=PRIVATE)

    assert ran.code == 2
    assert f"{shop}category/sale/ redirects" in ran.out
    assert "problem: ZeroDivisionError: division by zero (shop.py:18)" in ran.out
    assert "    shop.py:18 in listing: yield" in ran.out
    assert "2 selectors that matched nothing:\n    links('a.missing')\n    xpath('//h9')\n" in ran.out


def test_a_page_that_a_crawl_would_not_parse_runs_no_handler(shop: str, folder: Path) -> None:
    ran = shoal("try", "shop.py", f"{shop}nowhere", cwd=folder, env=PRIVATE)

    assert ran.code == 2
    assert "handler: not run" in ran.out
    assert "problem: a crawl runs no handler on it: status 404" in ran.out


def test_another_handler_can_be_named_and_an_unknown_one_is_refused(shop: str, folder: Path) -> None:
    url = f"{shop}product/plain-cast-net.html"
    other = shoal("try", "shop.py", url, "--handler", "home", "--json", cwd=folder, env=PRIVATE)
    assert (other.code, other.json["handler"]) == (0, "home")

    unknown = shoal("try", "shop.py", url, "--handler", "hom", cwd=folder, env=PRIVATE)
    assert unknown.code == 1
    assert unknown.complaint == "spider 'shop' has no handler 'hom'; it has product, listing, home"


def test_a_url_in_place_of_the_spider_is_explained(folder: Path) -> None:
    ran = shoal("try", "https://example.com/", cwd=folder)
    assert ran.code == 1
    assert ran.complaint.startswith("shoal try takes a spider, then a URL")


def test_a_spider_takes_arguments(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import shoal\n"
        "def shop(path: str) -> shoal.Spider:\n"
        f"    spider = shoal.Spider('shop', '{shop}' + path)\n"
        "    @spider.page()\n"
        "    def listing(page):\n"
        "        yield {'path': path}\n"
        "    return spider\n"
    )
    ran = shoal("try", "shop.py", "-a", "path=category/nets/", "--json", cwd=tmp_path, env=PRIVATE)
    assert ran.code == 0, ran.err
    assert (ran.json["url"], ran.json["items"]) == (f"{shop}category/nets/", [{"path": "category/nets/"}])


SHELL_PAGE = """<head><script>addEventListener('load', () => {
document.getElementById('root').innerHTML = '<h1>filled</h1>' })</script></head><body><div id=root></div></body>"""


@pytest.mark.slow("a command in a browser")
async def test_a_page_that_is_empty_without_javascript_is_named_and_rendered_on_demand(
    tmp_path: Path,
) -> None:
    program("chromium-headless-shell", "chromium-headless-shell")
    async with serving_written({"/": Sheet(SHELL_PAGE)}) as site:
        arguments = ("try", f"http://{site.authorities[0]}/", "--item", "title=h1")
        plain = await asyncio.to_thread(shoal, *arguments, cwd=tmp_path, env=PRIVATE)
        rendered = await asyncio.to_thread(shoal, *arguments, "--render", "--json", cwd=tmp_path, env=PRIVATE)
    assert plain.code == 0, plain.err
    assert "empty without JavaScript: " in plain.out
    assert "; --render fills it in a browser" in plain.out
    assert rendered.code == 0, rendered.err
    assert [one["title"] for one in rendered.json["items"]] == ["filled"]
    assert (rendered.json["rendered"], rendered.json["empty_without_javascript"]) == (True, None)
