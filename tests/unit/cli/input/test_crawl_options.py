"""From options to settings and plan."""

from dataclasses import fields
from typing import Any

import pytest

from shoal.cli.commands.run.crawl import RunOptions, command
from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.crawl_plan import plan_crawl
from shoal.model.configuration.configure import TYPES
from shoal.model.errors import Misconfigured
from shoal.spider.source import PlainSpider


def test_every_option_that_names_a_setting_sets_it() -> None:
    named: dict[str, Any] = {
        one.name: "1" for one in fields(CrawlOptions) if f"crawl.{one.name}" in TYPES or one.name == "store"
    }
    keys = {name if name == "store" else f"crawl.{name}" for name in named}
    assert CrawlOptions(**named).settings() == dict.fromkeys(keys, "1")


def test_an_option_that_is_not_set_overrides_nothing() -> None:
    assert CrawlOptions().settings() == {}
    assert CrawlOptions(robots=False).settings() == {"crawl.robots": False}


def test_options_become_a_plan() -> None:
    plan = plan_crawl(
        CrawlOptions(
            target=["https://a.test/"],
            item=["name=h1"],
            sitemap=["https://a.test/sitemap.xml"],
            out=["a.csv"],
            crawl="shop",
            rate="0.5",
            contact="me@example.org",
            resume=False,
        )
    )
    assert plan.source == PlainSpider("a.test", ("https://a.test/",), {"name": "h1"})
    assert (plan.name, plan.outputs, plan.fresh) == ("shop", ("a.csv",), True)
    assert plan.sitemaps == ("https://a.test/sitemap.xml",)
    assert (plan.settings.crawl.rate, plan.settings.crawl.contact) == (0.5, "me@example.org")
    assert plan.overrides == {"rate", "contact"}


def test_a_bad_option_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(Misconfigured, match="--depth: must be a whole number"):
        command(RunOptions(target=["https://a.test/"], depth="deep"))
