"""What a worker tells of itself and of the fleet over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.engine.leased import lease

from shoal.engine.fetch_log.meter import TOP_HOSTS, AttemptMeter
from shoal.engine.snapshot import WorkerStats, WorkStats
from shoal.model.configuration.listen_address import address_of, is_loopback
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.exits.spending import Spending
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Gone, Settlement
from shoal.model.page import Timing
from shoal.services.inspect.status import CrawlStatus, FleetStatus, Stage, StoreStatus
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.worker.figures import WorkerFigures
from shoal.worker.http_endpoint import MAX_CONNECTIONS, Endpoint
from shoal.worker.metrics import exposition

DEPLOY = Path(__file__).parents[3] / "deploy"
OWN = WorkerStats(
    64, 16, draining=False, done={"shop": WorkStats(7, 21, 9000, {"timeout": 2, "internal": 1})}
)
WORKER = Heartbeat(
    worker="w1", host="m", pid=1, roles=("fetch", "parse"), shoal="0", started_at=0, beaten_at=0, doing="idle"
)
FLEET = StoreStatus(
    "redis://127.0.0.1/0",
    None,
    [CrawlStatus("shop", 12, {"waiting": 5, "done": 7}, {"timeout": 2}, {}, retries=4)],
    FleetStatus([WORKER], {"shop": {"parse": Stage(3), "sink": Stage(4)}}),
)


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_figures_of_the_worker_and_of_the_fleet_are_told() -> None:
    told = samples(exposition(OWN, FLEET))
    assert told["shoal_pages_total", "shop"] == 7
    assert told["shoal_items_total", "shop"] == 21
    assert told["shoal_bytes_total", "shop"] == 9000
    assert told["shoal_failures_total", "shop", "timeout"] == 2
    assert told["shoal_worker_busy_ratio",] == 0.25
    assert told["shoal_requests", "shop", "waiting"] == 5
    assert told["shoal_stage_lag", "shop", "sink"] == 4
    assert told["shoal_workers", "parse"] == 1
    assert told["shoal_store_up",] == 1


def test_the_traffic_through_exits_and_its_cost_are_told_by_kind() -> None:
    spending = Spending(
        kinds={"isp": 5_000, "residential": 1_000_000}, costs={"residential": 4.25}, share=0.85
    )
    crawl = CrawlStatus("shop", 12, {"done": 7}, {}, {}, spending=spending)
    told = samples(exposition(OWN, StoreStatus("shoal-data", None, [crawl])))
    assert told["shoal_exit_bytes", "isp", "shop"] == 5_000
    assert told["shoal_exit_bytes", "residential", "shop"] == 1_000_000
    assert told["shoal_exit_cost", "residential", "shop"] == 4.25
    assert told["shoal_exit_budget_ratio", "shop"] == 0.85


def test_a_store_that_does_not_answer_takes_only_its_own_figures_along() -> None:
    told = samples(exposition(OWN, None))
    assert told["shoal_store_up",] == 0
    assert told["shoal_pages_total", "shop"] == 7
    assert not any(name == "shoal_requests" for name, *_ in told)


def test_what_is_done_adds_up_over_the_runs_of_a_crawl() -> None:
    assert WorkStats(1, 2, 3, {"dns": 1}) + WorkStats(1, 1, 1, {"dns": 1, "tls": 1}) == WorkStats(
        2, 3, 4, {"dns": 2, "tls": 1}
    )


def metered(hosts: int) -> WorkerStats:
    meter = AttemptMeter()
    for number in range(hosts):
        timing = Timing(total=0.3, queue=0.1, first_byte=0.15)
        meter.settled(Settlement(lease(number, host=f"h{number}.test"), Gone(404), timing=timing), None)
    done = WorkStats(7, 21, 9000, meter=meter, unlogged=3)
    return WorkerStats(64, 16, draining=False, done={"shop": done}, parsing=5, oldest_lease_s=2.5)


def test_metrics_have_the_names_that_dashboards_of_scrapers_expect() -> None:
    told = samples(exposition(metered(3), FLEET))
    assert told["scraper_tasks_processed_total", "success"] == 3
    assert told["scraper_tasks_processed_total", "error"] == 0
    assert told["scraper_tasks_processed_total", "rate_limited"] == 0
    assert told["scraper_fetch_duration_seconds_count",] == 3
    assert told["scraper_fetch_duration_seconds_sum",] == pytest.approx(0.6)
    assert told["scraper_queue_depth",] == 5
    assert told["scraper_domains_active",] == 3


def test_stages_phases_and_events_are_told() -> None:
    told = samples(exposition(metered(3), FLEET))
    assert told["shoal_attempts_total", "gone", "shop"] == 3
    assert told["shoal_phase_seconds_count", "first_byte"] == 3
    assert told["shoal_phase_seconds_bucket", "0.25", "first_byte"] == 3
    assert told["shoal_in_flight", "parse"] == 5
    assert told["shoal_oldest_lease_seconds",] == 2.5
    assert told["shoal_fetch_log_dropped_total", "shop"] == 3
    assert told["shoal_hosts", "active"] == 3
    assert told["shoal_host_attempts_total", "h0.test"] == 1
    assert told["shoal_dead_letters", "shop", "timeout"] == 2
    assert told["shoal_events", "retries", "shop"] == 4
    assert told["shoal_lost_outcomes_total",] == 0


def test_the_page_stays_small_with_very_many_hosts() -> None:
    assert len(exposition(metered(30_000), FLEET)) < 64 << 10


def test_the_figures_of_a_folder_are_told_without_a_fleet() -> None:
    told = samples(exposition(OWN, StoreStatus("shoal-data", None, FLEET.crawls)))
    assert told["shoal_requests", "shop", "waiting"] == 5
    assert told["scraper_queue_depth",] == 5
    assert not any(name == "shoal_workers" for name, *_ in told)


def test_every_metric_is_explained() -> None:
    explained = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    text = exposition(metered(1), FLEET).decode()
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {name for name in families if f"`{name}" not in explained} == set()


def test_scalers_ask_for_metrics_that_exist() -> None:
    told = {name for name, *_ in samples(exposition(OWN, FLEET))}
    scalers = yaml.safe_load_all((DEPLOY / "kubernetes" / "autoscaling.yaml").read_text())
    asked = {
        metric[kind]["metric"]["name"]
        for scaler in scalers
        for metric in scaler["spec"]["metrics"]
        for kind in ("pods", "external")
        if kind in metric
    }
    assert asked
    assert asked <= told


def test_pages_that_another_worker_parses_are_counted_there_only() -> None:
    fetched = WorkerStats(64, 16, draining=False, done={"shop": WorkStats(2, handed_on=5)})
    told = samples(exposition(fetched, FLEET))
    assert told["shoal_pages_total", "shop"] == 2
    assert told["shoal_pages_handed_on_total", "shop"] == 5


def test_a_worker_that_does_not_fetch_is_in_no_average_of_busy_slots() -> None:
    told = {name for name, *_ in samples(exposition(WorkerStats(0, 0, draining=False, done={}), FLEET))}
    assert not any(name.startswith("shoal_worker_") for name in told)


def test_failures_that_must_not_be_are_counted_from_nought() -> None:
    told = samples(exposition(WorkerStats(1, 0, draining=False, done={"shop": WorkStats()}), FLEET))
    assert told["shoal_failures_total", "internal", "shop"] == 0


Ask = Callable[[str], Awaitable[tuple[int, str]]]


@asynccontextmanager
async def asked(own: WorkerStats, fleet: Callable[[], Awaitable[StoreStatus]]) -> AsyncIterator[Ask]:
    server = await asyncio.start_server(Endpoint(lambda: own, fleet).serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def ask(question: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{question}\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body

    async with server:
        yield ask


async def look() -> StoreStatus:
    return FLEET


async def gone() -> StoreStatus:
    raise Unavailable("store: gone")


async def test_a_worker_answers_over_http() -> None:
    async with asked(OWN, look) as ask:
        assert (await ask("GET /metrics HTTP/1.1"))[1] == exposition(OWN, FLEET).decode()
        assert await ask("GET /readyz HTTP/1.1") == (200, "ready\n")
        assert await ask("GET /healthz HTTP/1.1") == (200, "alive\n")
        assert await ask("HEAD /metrics HTTP/1.1") == (200, "")
        assert (await ask("POST /metrics HTTP/1.1"))[0] == 405
        assert (await ask("GET / HTTP/1.1"))[0] == 404


async def test_idle_connections_keep_no_probe_out() -> None:
    endpoint = Endpoint(lambda: OWN, look)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MAX_CONNECTIONS)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        for _, one in [*idle, (reader, writer)]:
            one.close()
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_draining_worker_is_alive_and_not_ready() -> None:
    async with asked(WorkerStats(1, 1, draining=True, done={}), look) as ask:
        assert (await ask("GET /readyz HTTP/1.1"))[0] == 503
        assert (await ask("GET /healthz HTTP/1.1"))[0] == 200


async def test_a_worker_without_a_store_is_alive_and_not_ready() -> None:
    async with asked(OWN, gone) as ask:
        assert (await ask("GET /readyz HTTP/1.1"))[0] == 503
        assert (await ask("GET /healthz HTTP/1.1"))[0] == 200
        assert "shoal_store_up 0.0" in (await ask("GET /metrics HTTP/1.1"))[1]


async def test_the_store_is_not_asked_for_every_question() -> None:
    looks = 0

    async def count() -> StoreStatus:
        nonlocal looks
        looks += 1
        return FLEET

    async with asked(OWN, count) as ask:
        for _ in range(5):
            await ask("GET /metrics HTTP/1.1")
    assert looks == 1


@pytest.mark.parametrize("address", ["94640", ":9464", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(Misconfigured, match="such as 9464"):
        address_of(address)


def test_an_address_may_be_of_version_six() -> None:
    assert address_of("[::1]:9464") == ("::1", 9464)
    assert address_of("9464") == ("127.0.0.1", 9464)  # no other machine can reach it


async def test_metrics_are_for_those_who_know_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_METRICS_TOKEN", "s3cret")
    async with asked(OWN, look) as ask:
        for wrong in (
            "",
            "\r\nAuthorization: Bearer s3cre",
            "\r\nAuthorization: s3cret",
            "\r\nX: Bearer s3cret",
        ):
            assert (await ask(f"GET /metrics HTTP/1.1{wrong}"))[0] == 401
        assert (await ask("GET /metrics HTTP/1.1\r\nauthorization:  Bearer s3cret"))[0] == 200
        assert (await ask("GET /healthz HTTP/1.1"))[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200),
        ("[::1]:9464", 200),
        ("worker:9464", 200),
        ("worker-1.shoal.svc.cluster.local", 200),
        ("rebound.example:9464", 403),
        ("127.0.0.1.rebound.example", 403),
        ("127.0.0.1@rebound.example", 403),
        ("", 403),
        ("127.0.0.1\r\nHost: rebound.example", 403),
    ],
)
async def test_metrics_are_not_for_a_name_that_a_site_may_have(
    host: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(OWN, look) as ask:
        assert (await ask(f"GET /metrics HTTP/1.1\r\nHost: {host}"))[0] == status
        assert (await ask(f"GET /healthz HTTP/1.1\r\nHost: {host}"))[0] == 200
    monkeypatch.setenv("SHOAL_METRICS_TOKEN", "t")  # which no site knows
    async with asked(OWN, look) as ask:
        question = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer t"
        assert (await ask(question))[0] == 200


async def test_no_question_ends_in_an_unhandled_error(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> StoreStatus:
        raise KeyError("a bug")

    async with asked(OWN, broken) as ask:
        assert (await ask("GET /metrics HTTP/1.1"))[0] == 500
        assert (await ask("GET"))[0] == 405
        assert (await ask("\xff\xfe"))[0] == 405
        assert (await ask("GET /healthz HTTP/1.1"))[0] == 200
    assert [record.message for record in caplog.records if record.name.startswith("shoal")] == [
        "metrics.failed"
    ]
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_an_address_is_open_to_others_or_not(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_the_page_stays_small_with_a_million_hosts_and_a_thousand_workers() -> None:
    """Hosts are bounded where they are counted, and again where they are added up."""
    meter = AttemptMeter()
    for number in range(100_000):  # of a million: the meter is full after 20,000
        meter.settled(failed_at(f"host-{number * 10}.a-rather-long-name-of-a-shop.example"), None)
    stats = WorkerStats(64, 16, draining=False, done={"shop": WorkStats(7, 21, 9000, {}, meter=meter)})
    trouble = tuple(meter.troubled_hosts())
    figures = {
        f"w{worker}": WorkerFigures(
            worker=f"w{worker}",
            at=time.time(),
            slots=64,
            trouble=tuple(one._replace(host=f"{worker}-{one.host}") for one in trouble),
        )
        for worker in range(1_000)
    }
    page = exposition(stats, replace(FLEET, figures=figures))
    told = samples(page)
    assert len(page) < 256 << 10
    assert told["shoal_fleet_slots",] == 64_000
    assert sum(key[0] == "shoal_failing_host_failures" for key in told) == TOP_HOSTS


def failed_at(host: str) -> Settlement:
    return Settlement(lease(1, host=host), Dead(Failure(FailureClass.TIMEOUT, "late")), sent=True)


def test_what_all_processes_publish_is_added_up() -> None:
    now = time.time()
    buckets = (3, *[0] * 12, 1)
    figures = {
        "w1": WorkerFigures(worker="w1", at=now, tasks={"success": 4}, buckets=buckets, seconds=70.0, busy=3),
        "w2": WorkerFigures(
            worker="w2", at=now, tasks={"success": 2, "error": 1}, busy=1, oldest_lease_s=9.0
        ),
        "gone": WorkerFigures(worker="gone", at=now - 60, tasks={"success": 100}),
    }
    told = samples(exposition(OWN, replace(FLEET, figures=figures, held={"slowed": 2})))
    assert told["shoal_fleet_attempts", "success"] == 6
    assert told["shoal_fleet_attempts", "error"] == 1
    assert told["shoal_fleet_busy",] == 4
    assert told["shoal_fleet_processes",] == 2
    assert told["shoal_fleet_oldest_lease_seconds",] == 9.0
    assert told["shoal_fleet_fetch_duration_seconds_count",] == 4
    assert told["shoal_fleet_fetch_duration_seconds_sum",] == 70.0
    assert (told["shoal_hosts_held", "slowed"], told["shoal_hosts_held", "paused"]) == (2, 0)
