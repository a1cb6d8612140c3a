"""The shop that `shoal demo` crawls."""

import http.client
import re
from collections import Counter

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop


def walk(shop: Shop) -> Counter[int]:
    """Visit everything that can be reached, retrying what is busy."""
    statuses: Counter[int] = Counter()
    seen, ahead = {"/"}, ["/"]
    while ahead:
        path = ahead.pop()
        reply = shop.reply(path)
        statuses[reply.status] += 1
        found = [reply.location] if reply.location else re.findall(r"""href=["']([^"'?]+)""", reply.body)
        if reply.status == 503:
            ahead.append(path)
        ahead += [link for link in found if link not in seen and not link.startswith("/cart/")]
        seen.update(found)
    return statuses


def test_every_product_is_reached_and_some_links_are_broken_moved_or_busy() -> None:
    shop = Shop()
    statuses = walk(shop)
    assert statuses[200] == 1 + 8 * 4 + len(shop.products)
    assert (statuses[301], statuses[404], statuses[503]) == (1, 8, 4)


def test_a_smaller_shop_has_fewer_categories_and_the_same_failures() -> None:
    statuses = walk(Shop(categories=1))
    assert statuses == {200: 1 + 4 + 40, 301: 1, 404: 1, 503: 1}


def test_it_is_the_same_every_time() -> None:
    one, other = Shop(), Shop()
    assert one.products == other.products
    assert one.reply("/category/nets/").body == other.reply("/category/nets/").body


def test_a_product_page_has_everything_that_a_spider_reads() -> None:
    shop = Shop()
    path, product = next(iter(shop.products.items()))
    body = shop.reply(path).body
    for expected in (
        f"<h1>{product.name}</h1>",
        f'data-sku="{product.sku}"',
        f'class="price">£{product.pence / 100:.2f}<',
        f'data-rating="{product.rating:.1f}"',
        'class="stock"',
    ):
        assert expected in body
    assert 2 <= product.rating <= 5


def test_robots_txt_excludes_the_cart() -> None:
    assert "Disallow: /cart/" in Shop().reply("/robots.txt").body


def test_it_is_served_over_kept_connections_until_it_closes() -> None:
    with open_shop(Shop(), latency=0) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"))
        for path, status in (("/", 200), ("/category/sale/", 301), ("/nowhere", 404)):
            connection.request("GET", path)
            response = connection.getresponse()
            assert (response.status, len(response.read())) == (
                status,
                int(response.headers["content-length"]),
            )
        connection.close()
