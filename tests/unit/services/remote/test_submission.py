"""Submissions: a verdict per URL, and arguments that cannot be mistaken for options."""

from pathlib import Path

import pytest

from shoal.model.api.problem import ApiError
from shoal.model.api.roles import Role
from shoal.model.api.submission import CrawlSubmission
from shoal.model.configuration.crawl_definition import command_arguments
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, Settings
from shoal.services.remote.submission import (
    check_role,
    crawl_definition,
    crawl_name,
    judge_seeds,
    spider_path,
)


def test_each_url_gets_a_verdict() -> None:
    urls = ["https://a.test/x", " https://a.test/x ", "--fresh", "ftp://a.test/", "http://10.0.0.1/", "http://u:p@a.test/", "http://a.test:25/"]  # fmt: skip
    verdicts = judge_seeds(urls, Settings())
    assert [one.accepted for one in verdicts] == [True] + [False] * 6
    assert [one.line for one in verdicts] == list(range(1, 8))
    assert all(one.reason for one in verdicts[1:])
    private = Settings(crawl=CrawlSettings(allow_private=True))
    assert judge_seeds(["http://10.0.0.1/"], private)[0].accepted


def test_every_value_is_attached_to_its_option() -> None:
    submission = CrawlSubmission(
        urls=["https://a.test/"],
        follow="--yes",
        fields={"title": "--config=/etc/passwd"},
        rate=0.5,
        robots=False,
        outputs=["a.csv"],
        same_host=False,
    )
    found = command_arguments(crawl_definition(submission, urls=["https://a.test/"]))
    assert found == [
        "--follow=--yes",
        "--rate=0.5",
        "--item=title=--config=/etc/passwd",
        "--out=a.csv",
        "--any-host",
        "--no-robots",
        "--",
        "https://a.test/",
    ]


@pytest.mark.parametrize(
    ("submission", "name"),
    [
        (CrawlSubmission(urls=["https://a.test:8000/x"]), "a.test:8000"),
        (CrawlSubmission(urls=["https://a.test/"], name="b"), "b"),
        (CrawlSubmission(spider="books.py"), "books"),
        (CrawlSubmission(spider="books.py:cheap"), "cheap"),
        (CrawlSubmission(sitemaps=["https://a.test/sitemap.xml"]), "a.test"),
    ],
)
def test_the_name_of_a_crawl(submission: CrawlSubmission, name: str) -> None:
    assert crawl_name(submission, submission.urls) == name


def test_nothing_to_crawl_is_refused() -> None:
    with pytest.raises(Misconfigured, match="nothing to crawl"):
        crawl_name(CrawlSubmission(), [])


def test_a_spider_comes_from_the_allowed_folder_only(tmp_path: Path) -> None:
    allowed = tmp_path / "spiders"
    allowed.mkdir()
    (allowed / "books.py").write_text("")
    (tmp_path / "secret.py").write_text("")
    (allowed / "link.py").symlink_to(tmp_path / "secret.py")
    assert spider_path("books.py:cheap", allowed) == f"{allowed}/books.py:cheap"
    for name in ("../secret.py", "link.py", "missing.py"):
        with pytest.raises(Misconfigured, match=r"this server has: books\.py"):
            spider_path(name, allowed)
    with pytest.raises(Misconfigured, match="--spiders"):
        spider_path("books.py", None)


def test_what_is_less_polite_is_the_admins() -> None:
    check_role(CrawlSubmission(robots=False, fresh=True), Role.ADMIN)
    for submission in (CrawlSubmission(robots=False), CrawlSubmission(fresh=True)):
        with pytest.raises(ApiError) as refused:
            check_role(submission, Role.OPERATE)
        assert refused.value.status == 403
