"""The benchmark's job as a Scrapy spider, run by the interpreter of Scrapy's own environment.

Settings are Scrapy's defaults but for what the job fixes (concurrency, no pauses, quiet log); robots.txt is
off, which is in Scrapy's favour. `--list` gives it the URLs instead of letting it follow links; with
`--redis` its queue and what it has seen are there, by scrapy-redis.
"""

import argparse
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor

FIELDS: dict[str, str] = {}


class ShopSpider(scrapy.Spider):  # type: ignore[misc]  # Scrapy is not installed where types are checked
    name = "shop"

    def __init__(self, urls: list[str], follow: bool) -> None:
        super().__init__()
        self._urls, self._follow = urls, follow
        self._links = LinkExtractor()

    async def start(self) -> AsyncIterator[Any]:
        for url in self._urls:
            yield scrapy.Request(url)

    def parse(self, response: Any) -> Iterator[Any]:
        yield {"url": response.url} | {
            name: response.css(f"{selector}::text").get() for name, selector in FIELDS.items()
        }
        if self._follow:
            for link in self._links.extract_links(response):
                yield scrapy.Request(link.url)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--cap", type=int, default=0, help="stop after this many pages")
    parser.add_argument(
        "--list", type=Path, help="file with the paths to fetch, one per line; follow nothing"
    )
    parser.add_argument("--redis", default="", metavar="URL", help="keep the queue there")
    parser.add_argument("--field", action="append", default=[], metavar="NAME=CSS")
    args = parser.parse_args()
    FIELDS.update(field.split("=", 1) for field in args.field)
    paths = args.list.read_text().split() if args.list else [""]
    shared = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": args.redis,
    }
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": args.concurrency,
            "CONCURRENT_REQUESTS_PER_DOMAIN": args.concurrency,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
            "CLOSESPIDER_PAGECOUNT": args.cap,
            "FEEDS": {str(args.out): {"format": "jsonlines", "overwrite": True}},
        }
        | (shared if args.redis else {})
    )
    urls = [args.url.rstrip("/") + path for path in paths]
    process.crawl(ShopSpider, urls=urls, follow=not args.list)
    process.start()


if __name__ == "__main__":
    main()
