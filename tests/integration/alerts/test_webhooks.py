"""Alerts reach a real receiver: signed, repeated after a failure, and never through the guard."""

import asyncio
import hashlib
import hmac
import json
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.site.raw import Handler, Peer, answer, raw_server

from shoal.model.alert import Alert, AlertKind
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import Response
from shoal.model.settings import AlertSettings, CrawlSettings, Settings
from shoal.services.alerts import webhooks
from shoal.services.alerts.webhooks import MAX_WAITING, Webhook, judge_answer, open_webhooks, pause_before

KEY = "0123456789abcdef0123456789abcdef"
ALERT = Alert(kind=AlertKind.LATENCY, cause="slow", action="look", since=1.0, raised_at=2.0)
SECRET = "T0-B1-s3cret-part"
LIMIT_S = 30.0


def settings(port: int, folder: Path, *, private: bool = True) -> Settings:
    file = folder / "key"
    file.write_text(KEY)
    alerts = AlertSettings(webhooks=(f"http://127.0.0.1:{port}/{SECRET}",), webhook_key_file=str(file))
    return replace(Settings(), crawl=CrawlSettings(allow_private=private), alerts=alerts)


def replying(*statuses: int) -> Handler:
    """Answer with these statuses in turn, then with 204."""
    left = list(statuses)

    async def handle(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer(b"", status=left.pop(0) if left else 204))

    return handle


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "FIRST_PAUSE_S", 0.01)


async def received(requests: list[bytes], number: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(requests) < number:  # noqa: ASYNC110 (the server's task appends)
            await asyncio.sleep(0.01)


async def test_a_delivery_is_signed_and_repeated_after_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_server(replying(503, 429)) as server:
        async with open_webhooks(settings(server.port, tmp_path)) as opened:
            assert opened is not None
            opened.send("alert.raised", ALERT, "redis://queue.example")
            await received(server.requests, 3)
        head, _, body = server.requests[-1].partition(b"\r\n\r\n")
    assert head.startswith(f"POST /{SECRET} HTTP/1.1".encode())
    [(at, signed)] = re.findall(rb"(?i)x-shoal-signature: t=(\d+),v1=([0-9a-f]{64})", head)
    assert signed.decode() == hmac.new(KEY.encode(), at + b"." + body, hashlib.sha256).hexdigest()
    told = json.loads(body)
    assert (told["event"], told["store"], told["alert"]["kind"]) == (
        "alert.raised",
        "redis://queue.example",
        "latency",
    )
    assert {request.partition(b"\r\n\r\n")[2] for request in server.requests} == {body}
    assert caplog.records == []


async def test_an_answer_that_will_not_change_is_not_repeated_and_no_secret_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_server(replying(404)) as server:
        async with open_webhooks(settings(server.port, tmp_path)) as opened:
            assert opened is not None
            opened.send("alert.raised", ALERT, "data")
            await received(server.requests, 1)
        assert len(server.requests) == 1
    [record] = caplog.records
    assert (record.message, record.why, record.tries) == ("webhook.failed", "status 404", 1)  # type: ignore[attr-defined]
    assert SECRET not in str(record.__dict__)
    assert SECRET not in repr(settings(1, tmp_path))


async def test_the_guard_refuses_a_private_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with raw_server(replying()) as server:
        async with open_webhooks(settings(server.port, tmp_path, private=False)) as opened:
            assert opened is not None
            opened.send("alert.raised", ALERT, "data")
        assert server.requests == []
    [record] = caplog.records
    assert record.why.startswith("refused")  # type: ignore[attr-defined]
    assert SECRET not in str(record.__dict__)


async def test_a_receiver_that_hangs_holds_up_neither_the_end_nor_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhooks, "CLOSE_S", 0.2)

    async def hang(peer: Peer) -> None:
        await peer.request()
        await peer.hang()

    async with asyncio.timeout(LIMIT_S), raw_server(hang) as server:
        async with open_webhooks(settings(server.port, tmp_path)) as opened:
            assert opened is not None
            for _ in range(5 * MAX_WAITING):
                opened.send("alert.raised", ALERT, "data")
            await received(server.requests, 1)
    assert caplog.messages == ["webhook.dropped"]


async def test_an_error_inside_of_the_client_does_not_end_the_deliveries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        async def fetch(self, *_: object, **__: object) -> Response:
            raise RuntimeError("bug")

    hook = Webhook("https://hooks.example/x", b"", Broken(), FetchLimits())
    hook.add(b"{}")
    hook.close()
    async with asyncio.timeout(LIMIT_S):
        await hook.run()
    with caplog.at_level(logging.WARNING):
        assert caplog.messages == ["webhook.internal", "webhook.failed"]


def response(status: int) -> Response:
    return Response("http://a.test/", status, (), b"", b"", fetched_at=0.0, elapsed=0.1)


@pytest.mark.parametrize(
    ("given", "fails", "final"),
    [
        (response(200), False, True),
        (response(204), False, True),
        (response(302), True, True),
        (response(404), True, True),
        (response(429), True, False),
        (response(500), True, False),
        (Failure(FailureClass.TIMEOUT, "no answer"), True, False),
        (Failure(FailureClass.REFUSED, "private"), True, True),
    ],
)
def test_what_an_answer_means(given: Response | Failure, *, fails: bool, final: bool) -> None:
    why, is_final = judge_answer(given)
    assert (bool(why), is_final) == (fails, final)


def test_pauses_grow_up_to_a_minute() -> None:
    assert [pause_before(number) for number in (1, 2, 3, 20)] == [0.01, 0.02, 0.04, 60.0]
