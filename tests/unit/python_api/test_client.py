"""`shoal.Client` has a method for each route, and docs/api.md a place for each command and each route."""

import http.client
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

import shoal
from shoal.cli.app import application
from shoal.server.http.route import ApiRoute, Matched
from shoal.server.routes.table import ROUTES, TABLE

DASHBOARD = {"live", "session"}  # topics of routes that its pages use
PAGE = Path(__file__).parents[3] / "docs" / "api.md"


class Sent(Exception):
    def __init__(self, method: str, path: str) -> None:
        self.request = method, path


class Recorder(shoal.Client):
    """A client that stops where it would send."""

    def _open(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        raise Sent(method, path)


def of_programs(route: ApiRoute) -> bool:
    return route.topic not in DASHBOARD or route.name == "list_alerts"


CALLS: dict[str, Callable[[Recorder], Any]] = {
    "openapi": lambda client: client.openapi(),
    "metrics": lambda client: client.metrics(),
    "status": lambda client: client.status(),
    "follow_events": lambda client: next(client.events()),
    "list_workers": lambda client: client.workers(),
    "show_wanted_workers": lambda client: client.autoscale(max=3),
    "list_crawls": lambda client: next(client.crawls()),
    "submit_crawl": lambda client: client.submit(urls=["http://a.test/"]),
    "show_crawl": lambda client: client.crawl("a/b"),
    "delete_crawl": lambda client: client.delete("a"),
    "pause_crawl": lambda client: client.pause("a"),
    "resume_crawl": lambda client: client.resume("a"),
    "pause_all_crawls": lambda client: client.pause_all(),
    "resume_all_crawls": lambda client: client.resume_all(),
    "add_seeds": lambda client: client.add_seeds("a", ["http://a.test/"]),
    "list_urls": lambda client: next(client.urls("a", state="done")),
    "list_items": lambda client: next(client.items("a", newest=True)),
    "download_items": lambda client: client.download("a", "x.csv", form="csv"),
    "compare_generations": lambda client: client.diff("a", before=1, after=2),
    "show_trace": lambda client: client.trace("http://a.test/?x=1"),
    "show_report": lambda client: client.report("x.html", crawl="a"),
    "verify_store": lambda client: client.verify("a", deep=True),
    "show_plan": lambda client: client.plan(per_day=5),
    "list_hosts": lambda client: client.hosts(),
    "show_one_host": lambda client: client.host("a.test:80"),
    "change_host": lambda client: client.change_host("a.test", rate=1.0),
    "refresh_host_robots": lambda client: client.refresh_robots("a.test"),
    "show_host_level": lambda client: client.level("a.test"),
    "set_host_level": lambda client: client.set_level("a.test", "plain"),
    "reset_host_level": lambda client: client.reset_level("a.test"),
    "list_dead_letters": lambda client: next(client.dead_letters(crawl="a")),
    "show_dead_letter": lambda client: client.dead_letter("0" * 16),
    "replay_dead_letters": lambda client: client.replay(all=True),
    "purge_dead_letters": lambda client: client.purge(crawl="a"),
    "list_all_exits": lambda client: client.exits(),
    "rest_one_exit": lambda client: client.rest_exit("http://p:1", 5.0),
    "list_all_schedules": lambda client: client.schedules(),
    "create_schedule": lambda client: client.add_schedule(
        name="a", every_s=60, crawl={"urls": ["http://a/"]}
    ),
    "pause_one_schedule": lambda client: client.pause_schedule("a"),
    "resume_one_schedule": lambda client: client.resume_schedule("a"),
    "delete_schedule": lambda client: client.remove_schedule("a"),
    "list_all_webhooks": lambda client: client.webhooks(),
    "create_webhook": lambda client: client.add_webhook(name="a", url="http://a/", events=["crawl.finished"]),
    "delete_webhook": lambda client: client.remove_webhook("a"),
    "scrape_page": lambda client: client.scrape("http://a.test/"),
    "list_alerts": lambda client: client.alerts(),
}


def test_each_route_for_programs_has_a_method_of_the_client() -> None:
    assert set(CALLS) == {route.name for route in ROUTES if of_programs(route)}
    for name, call in CALLS.items():
        with pytest.raises(Sent) as sent:
            call(Recorder("http://127.0.0.1:1", "x"))
        method, path = sent.value.request
        found = TABLE.find(method, path.partition("?")[0].encode())
        assert isinstance(found, Matched), (name, path)
        assert found.route.name == name


def test_the_documentation_has_a_place_for_each_command_and_each_route() -> None:
    text = PAGE.read_text()
    section = text[text.index("## What each command is here") : text.index("## Alerts and scale")]
    rows = re.findall(r"^\| (`[a-z`, ]+`) \| (.*) \|$", section, re.MULTILINE)
    left_out = section[section.index("Not here") : section.index("Webhooks")]
    built = typer.main.get_command(application())
    assert isinstance(built, typer.core.TyperGroup)
    commands = re.findall(r"`([a-z]+)`", " ".join([*(names for names, _ in rows), left_out]))
    assert sorted(commands) == sorted(name for name, one in built.commands.items() if not one.hidden)
    mentioned = set(re.findall(r"`([A-Z]+ /[a-z-]+[^`?]*)`", section))
    described = {
        f"{route.method} {route.path.removeprefix('/api/v1')}"
        for route in ROUTES
        if of_programs(route) and route.topic != "service"
    }
    assert mentioned - {"GET /report"} == described - {"GET /report"}
