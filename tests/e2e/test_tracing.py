"""Traces reach a real OTLP receiver, in a folder and in a fleet, and a receiver that is gone costs no page."""

import asyncio
import gzip
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.e2e.command import DONE, NO_RETRIES, PAGES, QUICK, shoal
from tests.fleet_crawl import Fleet
from tests.servers.process import refusing_port
from tests.servers.redis import valkey
from tests.site.raw import Peer, RawServer, answer, raw_server

LIMIT_S = 60.0
STAGES = {"request", "robots", "queue", "fetch", "connect", "first_byte", "parse", "archive", "commit"}


async def receive(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer(b"", headers=(("Content-Type", "application/x-protobuf"),)))


def received(server: RawServer) -> list[dict[str, object]]:
    """Decode what the receiver was sent: the spans, with their attributes."""
    found = []
    for request in server.requests:
        head, _, body = request.partition(b"\r\n\r\n")
        body = gzip.decompress(body) if b"content-encoding: gzip" in head.lower() else body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {
                        one.key: one.value.string_value or one.value.int_value for one in span.attributes
                    }
                    found.append(
                        {
                            "name": span.name,
                            "trace": span.trace_id,
                            "id": span.span_id,
                            "parent": span.parent_span_id,
                            "failed": span.status.code == 2,
                            **attributes,
                        }
                    )
    return found


def env(server: RawServer, sample: str) -> dict[str, str]:
    return {"SHOAL_TRACING_ENDPOINT": server.url("/v1/traces"), "SHOAL_TRACING_SAMPLE": sample, **NO_RETRIES}


async def test_every_stage_of_every_request_is_a_span(shop: str, tmp_path: Path) -> None:
    target = f"{shop}?api_key=planted-secret"
    async with raw_server(receive) as server:
        ran = await asyncio.to_thread(
            shoal, "crawl", target, *QUICK, "--json", cwd=tmp_path, env=env(server, "1")
        )
        spans = received(server)
    assert ran.code in (0, 2), ran.err
    assert {str(span["name"]) for span in spans} >= STAGES | {"sink"}
    whole = [span for span in spans if span["name"] == "request"]
    assert len({span["trace"] for span in whole if span["shoal.outcome"] == "done"}) >= PAGES
    roots = {span["id"] for span in whole}
    assert all(span["parent"] in roots for span in spans if span["name"] in ("fetch", "parse", "archive"))
    assert b"planted-secret" not in b"".join(server.requests)
    assert not any("planted-secret" in str(span) for span in spans)


async def test_without_samples_only_failures_are_traced(shop: str, tmp_path: Path) -> None:
    async with raw_server(receive) as server:
        ran = await asyncio.to_thread(
            shoal, "crawl", shop, *QUICK, "--json", cwd=tmp_path, env=env(server, "0")
        )
        whole = [span for span in received(server) if span["name"] == "request"]
    assert ran.json["failures"] == {"target_error": 1}
    assert [(span["failed"], span["error.type"]) for span in whole] == [(True, "target_error")]


async def test_a_collector_that_is_gone_costs_no_page_and_one_line(shop: str, tmp_path: Path) -> None:
    with refusing_port() as port:
        settings = {"SHOAL_TRACING_ENDPOINT": f"http://127.0.0.1:{port}/s3cret", "SHOAL_TRACING_SAMPLE": "1"}
        ran = await asyncio.to_thread(shoal, "crawl", shop, *QUICK, cwd=tmp_path, env=settings)
    assert ran.code == 0, ran.err
    assert ran.err.count("tracing.unavailable") <= 1
    assert "s3cret" not in ran.err
    [found] = shoal("status", "--json", cwd=tmp_path).json["crawls"]
    assert found["counts"]["done"] == DONE


@pytest.mark.timeout(240)
async def test_workers_of_different_roles_send_one_trace_per_request(shop: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with raw_server(receive) as server, valkey(tmp_path / "server") as store:
        with Fleet(store.dsn, folder, settings=env(server, "1")) as fleet:
            assert fleet.submit(shop, "--crawl", "shop", spider=None).code == 0
            for roles in ("fetch", "parse,sink"):
                fleet.start("--until-done", "--roles", roles)
            for worker in fleet.workers:
                assert await fleet.ended(worker) == 0, fleet.logs()
        spans = received(server)
    fetched = {span["trace"] for span in spans if span["name"] == "fetch"}
    parsed = {span["trace"] for span in spans if span["name"] == "parse"}
    assert len(parsed) >= PAGES - 1  # one page fails
    assert parsed <= fetched
