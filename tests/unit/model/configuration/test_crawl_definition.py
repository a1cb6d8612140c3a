"""A crawl as fields: the options of `shoal crawl`, and back."""

import typing
from dataclasses import fields

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.model.configuration.crawl_definition import (
    NO_FIELDS,
    CrawlDefinition,
    command_arguments,
    hide_secrets,
    options,
    parse_command,
)
from shoal.model.errors import Misconfigured
from shoal.sinks.names import public_name

texts = st.text(max_size=8).filter(bool)
anything = st.one_of(texts, st.sampled_from(["--out", "--config=x.toml", "--", "-a", "=", "--yes", "-"]))
switches = st.none() | st.booleans()
definitions = st.builds(
    CrawlDefinition,
    spider=st.sampled_from(["", "books.py", "dir/books.py:shop", "shop.books:spider"]),
    urls=st.lists(st.sampled_from(["https://a.test/", "http://b.test/--out"])).map(tuple),
    items=st.lists(anything).map(tuple),
    arguments=st.lists(anything).map(tuple),
    outputs=st.lists(anything).map(tuple),
    proxies=st.lists(anything).map(tuple),
    seeds=st.none() | anything,
    query=st.none() | anything,
    follow=st.none() | anything,
    user_agent=st.none() | anything,
    config=st.none() | anything,
    same_host=switches,
    robots=switches,
    render=st.none() | st.just(True),
)


@given(definitions)
def test_no_value_is_taken_for_another_option(crawl: CrawlDefinition) -> None:
    assert parse_command(command_arguments(crawl)) == crawl


@given(definitions)
def test_a_definition_is_stored_and_read_again(crawl: CrawlDefinition) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(crawl), type=CrawlDefinition) == crawl


@pytest.mark.parametrize(
    ("typed", "crawl"),
    [
        (("https://a.test/", "--depth", "2"), CrawlDefinition(urls=("https://a.test/",), depth="2")),
        (("books.py", "-a", "x=1", "-ay=2"), CrawlDefinition(spider="books.py", arguments=("x=1", "y=2"))),
        (
            ("--follow", "--out", "books.py"),  # --out is the value of --follow
            CrawlDefinition(spider="books.py", follow="--out"),
        ),
        (("books.py", "-q", "-vv", "--yes", "--log-format", "json"), CrawlDefinition(spider="books.py")),
        (("--any-host", "--no-robots", "--", "m:n"), CrawlDefinition(spider="m:n", same_host=False, robots=False)),
    ],
)  # fmt: skip
def test_options_are_read_as_the_command_reads_them(typed: tuple[str, ...], crawl: CrawlDefinition) -> None:
    assert parse_command(typed) == crawl


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (("--store", "redis://x"), "--store is not for schedules: it is that of the schedule"),
        (("a.py", "--again"), "--again is not for schedules: give it to shoal schedule add"),
        (("a.py", "--dept=1"), "no such option: --dept; did you mean --depth?"),
        (("a.py", "b.py"), "'b.py' is not a URL; only the first TARGET may be a spider"),
        (("a.py", "--out"), "--out: needs a value"),
        (("--", "-x.py"), "'-x.py' is not the name of a spider"),
    ],
)
def test_what_a_schedule_cannot_have_is_refused(typed: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse_command(typed)
    assert str(caught.value).startswith(complaint)


def test_every_option_of_a_crawl_is_a_field_or_known_not_to_be_one() -> None:
    hints = typing.get_type_hints(CrawlOptions, include_extras=True)
    declared = [typing.get_args(hints[one.name])[-1] for one in fields(CrawlOptions)]
    # Typer calls the first name of an annotated option its default.
    names = [name for one in declared for name in (one.default, *(one.param_decls or ())) if name != ...]
    flags = {flag for name in names for flag in name.split("/") if flag.startswith("--")}

    assert flags >= {"--out", "--no-robots", "--store"}
    assert flags - {*options()} == {*NO_FIELDS}


def test_what_may_be_secret_is_not_shown() -> None:
    database = "postgresql://u:s3cret@db/shop"
    typed = ["a.py", "-a", "key=s3cret", "--proxy=http://u:s3cret@p", f"--out={database}", "--rate", "2"]
    crawl = parse_command([*typed, f"--seeds={database}", "--query", "SELECT 1"])
    shown = command_arguments(hide_secrets(crawl, public_name))
    assert "s3cret" not in " ".join(shown)
    assert {"--rate=2", "--proxy=***", "--argument=key=***", "--out=postgresql://u@db/shop"} <= {*shown}
