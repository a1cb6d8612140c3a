"""Who may do what: tokens, roles, Host and Origin, sessions."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.server.running import RunningServer, running_server
from tests.servers.process import refusing_port

from shoal.model.api.roles import Role
from shoal.model.settings import Settings
from shoal.server.access.tokens import add_token, remove_token
from shoal.server.http.route import ApiRoute
from shoal.server.routes.table import ROUTES


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path) as running:
        yield running


def path_of(route: ApiRoute) -> str:
    return re.sub(r"\{\w+\}", "x", route.path)


async def test_every_route_answers_401_without_a_token_and_with_a_wrong_one(server: RunningServer) -> None:
    for number, route in enumerate(ROUTES, 1):
        for headers in ({}, {"Authorization": "Bearer shoal_wrong"}, {"Authorization": "Basic YTpi"}):
            source = f"127.0.2.{number}"  # another one for each route: wrong tokens are limited
            reply = await server.send(route.method, path_of(route), role=None, headers=headers, source=source)
            assert reply.status == 401, route
            assert reply.json()["code"] in ("token_missing", "token_wrong")
            assert reply.headers["www-authenticate"].startswith("Bearer")


async def test_every_route_answers_403_to_a_role_that_is_too_small(server: RunningServer) -> None:
    for route in ROUTES:
        for role in Role:
            if not role.includes(route.role):
                reply = await server.send(route.method, path_of(route), role=role)
                assert (reply.status, reply.json()["code"]) == (403, "role_too_small"), route


async def test_no_get_changes_anything_and_every_change_needs_more_than_read() -> None:
    free = {"begin_session", "end_session"}
    assert not [one.name for one in ROUTES if one.changes and one.role is Role.READ and one.name not in free]


PATHS = (
    "//api/v1/crawls",
    "/api/v1/crawls/",
    "/api/v1/%2e%2e/v1/crawls",
    "/api/../api/v1/crawls",
    "/API/v1/crawls",
    "/api/v1/crawls/a/b/c",
    "/api/v1/crawls%2f",
    "*",
)


async def test_no_spelling_of_a_path_and_no_method_gets_around_the_token(server: RunningServer) -> None:
    tricks = {"X-HTTP-Method-Override": "GET", "X-Forwarded-For": "127.0.0.1", "X-Original-URL": "/healthz"}
    for number, path in enumerate(PATHS, 1):
        for method in ("GET", "HEAD", "POST", "OPTIONS", "TRACE", "PROPFIND"):
            source = f"127.0.3.{number}"  # wrong tokens are limited per address
            reply = await server.send(method, path, role=None, headers=tricks, source=source)
            assert reply.status == 401, (method, path)


async def test_the_method_of_a_request_cannot_be_overridden(server: RunningServer) -> None:
    reply = await server.send("PATCH", "/api/v1/crawls", headers={"X-HTTP-Method-Override": "GET"})
    assert reply.status == 405
    assert "GET" in reply.headers["allow"]


FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "user@127.0.0.1"},
    {"Host": "6.6.6.6"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Referer": "https://evil.example/page"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


async def test_a_request_for_another_host_or_from_another_site_is_refused(server: RunningServer) -> None:
    for headers in FOREIGN:
        for path in ("/api/v1/crawls", "/", "/healthz"):
            reply = await server.send("GET", path, headers=headers)
            assert (reply.status, reply.json()["code"][:8]) == (403, "foreign_"), headers


async def test_a_server_is_ready_while_its_store_answers(server: RunningServer, tmp_path: Path) -> None:
    assert (await server.send("GET", "/readyz", role=None)).body == b"ready\n"
    (folder := tmp_path / "alone").mkdir()
    with refusing_port() as port:
        async with running_server(folder, settings=Settings(store=f"redis://127.0.0.1:{port}")) as alone:
            assert (await alone.send("GET", "/readyz", role=None)).status == 503
            assert (await alone.send("GET", "/healthz", role=None)).body == b"alive\n"


async def test_a_request_of_the_servers_own_page_is_accepted(server: RunningServer) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert (await server.send("GET", "/api/v1/crawls", headers=own)).status == 200


async def test_no_other_site_may_read_an_answer(server: RunningServer) -> None:
    reply = await server.send("GET", "/api/v1/crawls")
    assert not [name for name in reply.headers if name.startswith("access-control-")]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in reply.headers["content-security-policy"]


async def test_pages_run_no_inline_script_and_cannot_be_framed(server: RunningServer) -> None:
    reply = await server.send("GET", "/", role=None)
    policy = reply.headers["content-security-policy"]
    assert reply.status == 200
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


async def test_a_token_that_is_removed_or_has_expired_stops_working_at_once(server: RunningServer) -> None:
    file = server.plan.token_file
    assert file is not None
    token = add_token(file, "short", Role.READ)
    headers = {"Authorization": f"Bearer {token}"}
    assert (await server.send("GET", "/api/v1/crawls", role=None, headers=headers)).status == 200
    remove_token(file, "short")
    assert (await server.send("GET", "/api/v1/crawls", role=None, headers=headers)).status == 401
    token = add_token(file, "expired", Role.READ, expires_s=0.0)
    headers = {"Authorization": f"Bearer {token}"}
    assert (await server.send("GET", "/api/v1/crawls", role=None, headers=headers)).status == 401


async def test_many_wrong_tokens_are_throttled_and_good_ones_are_not(server: RunningServer) -> None:
    wrong = [
        (
            await server.send("GET", "/api/v1/crawls", role=None, headers={"Authorization": f"Bearer {n}"})
        ).status
        for n in range(40)
    ]
    assert wrong[0] == 401
    assert wrong[-1] == 429
    assert (await server.send("GET", "/api/v1/crawls")).status == 200


async def test_a_page_behind_a_proxy_that_speaks_tls_gets_a_session_for_https_alone(
    server: RunningServer,
) -> None:
    for scheme, secure in (("http", False), ("https", True)):
        origin = {"Origin": f"{scheme}://127.0.0.1:{server.port}"}
        begun = await server.send("POST", "/api/v1/session", role=Role.READ, headers=origin)
        assert begun.status == 201
        assert ("; Secure" in begun.headers["set-cookie"]) is secure


async def test_a_session_needs_its_csrf_token_for_changes_and_ends_with_its_token(
    server: RunningServer,
) -> None:
    begun = await server.send("POST", "/api/v1/session", role=Role.READ)
    cookie = begun.headers["set-cookie"]
    assert begun.status == 201
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    session = {"Cookie": cookie.partition(";")[0]}
    shown = await server.send("GET", "/api/v1/session", role=None, headers=session)
    assert shown.json()["csrf"] == begun.json()["csrf"]
    refused = await server.send("DELETE", "/api/v1/session", role=None, headers=session)
    assert refused.json()["code"] == "csrf_missing"
    with_csrf = {**session, "X-Shoal-CSRF": begun.json()["csrf"]}
    assert (await server.send("DELETE", "/api/v1/session", role=None, headers=with_csrf)).status == 200
    assert (await server.send("GET", "/api/v1/session", role=None, headers=session)).status == 401


async def test_a_session_ends_with_its_token(server: RunningServer) -> None:
    begun = await server.send("POST", "/api/v1/session", role=Role.READ)
    session = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
    assert (await server.send("GET", "/api/v1/crawls", role=None, headers=session)).status == 200
    assert server.plan.token_file is not None
    remove_token(server.plan.token_file, "test-read")
    assert (await server.send("GET", "/api/v1/crawls", role=None, headers=session)).status == 401
