"""The screens at several widths, as `docs/screens/` has them: drawn from fixed figures."""

from pathlib import Path

from shoal.cli.views.crawl_screen import Screen
from shoal.cli.views.lines import Line
from shoal.cli.views.top_screen import TopScreen
from shoal.engine.snapshot import HostSnapshot, Snapshot
from shoal.frontier.results import HostQueue
from shoal.services.inspect.monitor import Overview
from shoal.services.inspect.status import CrawlStatus, FleetStatus, Stage, StoreStatus
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat

FOLDER = Path(__file__).parents[1] / "screens"
WIDTHS = (40, 80, 120)
HEIGHT = 24
NOW = 1_800_000_000.0

COUNTS = {
    "waiting": 3_000,
    "delayed": 4,
    "leased": 16,
    "parsing": 2,
    "done": 1_234,
    "gone": 12,
    "dead": 3,
    "filtered": 88,
}


def crawl_screen() -> Screen:
    """Return the screen of a crawl, one minute after its start."""
    screen = Screen("q quits")
    for second in range(60):
        screen.show(_snapshot(elapsed=second + 12.0, rate=12.0 + second % 7))
    return screen


def _snapshot(*, elapsed: float, rate: float) -> Snapshot:
    return Snapshot(
        crawl="shop.example",
        elapsed=elapsed,
        pages=1_234,
        items=1_100,
        bytes=48_200_000,
        rate=rate,
        counts=COUNTS,
        failures={"timeout": 5, "target_error": 2},
        filtered={"scope": 80, "robots": 8},
        in_flight=14,
        parse_backlog=2,
        slowest=[
            HostSnapshot("shop.example", 2_400, 4, 0.5, 1.0, 0.2, 0),
            HostSnapshot("images.shop.example", 600, 1, 2.0, 4.0, 1.5, 7),
            HostSnapshot("old.shop.example", 4, 0, 0.5, 1.0, 0.0, 0, paused=True),
        ],
        eta=1_200.0,
        eta_reason="the pace of shop.example",
        duplicates=18_200,
        retries=7,
        last_error="timeout: https://images.shop.example/nets/7.html: no response within 30 s",
    )


def top_screen() -> TopScreen:
    """Return the screen of a fleet of two workers."""
    activity = CrawlActivity("shop", "0123456789ab", 14, 100, 18.4)
    workers = [
        Heartbeat(
            worker=f"machine-{number}-ab12",
            host="machine",
            pid=number,
            roles=("fetch", "parse", "sink"),
            shoal="0.1.0",
            started_at=NOW - 60,
            beaten_at=NOW - number,
            doing="working",
            crawls=(activity,),
        )
        for number in (1, 2)
    ]
    stages = {"shop": {"fetch": Stage(3_004, 16), "parse": Stage(2), "sink": Stage(25)}}
    status = StoreStatus(
        "redis://queue.example",
        None,
        [CrawlStatus("shop", 4_359, COUNTS, {}, {})],
        FleetStatus(workers, stages),
    )
    hosts = (
        HostQueue("old.shop.example", 4, 0.5, 4, True),
        HostQueue("shop.example", 2_400, 0.5, 4, False),
        HostQueue("images.shop.example", 600, 2.0, 4, False, slow=4.0),
    )
    screen = TopScreen("q quits")
    screen.show(Overview(NOW, status, 36.8, hosts, {"paused": 1, "slowed": 1}))
    return screen


def text_of(lines: list[Line], width: int) -> str:
    """Return the lines of a screen as text, cut at the edge of the window."""
    return "\n".join("".join(text for text, _ in line)[:width].rstrip() for line in lines) + "\n"


def pages() -> dict[Path, str]:
    """Return each screen at each width, by file."""
    screens: dict[str, Screen | TopScreen] = {"crawl": crawl_screen(), "top": top_screen()}
    return {
        FOLDER / f"{name}-{width}.txt": text_of(screen.lines(width, HEIGHT), width)
        for name, screen in screens.items()
        for width in WIDTHS
    }


def write() -> None:
    """Write every screen anew."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
