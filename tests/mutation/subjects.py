"""What is changed: the code that keeps the promises. And which wider tests are about it."""

from pathlib import Path

SUBJECTS = (
    "frontier/sqlite",
    "frontier/governor.py",
    "frontier/rules.py",
    "frontier/redis/rate_tickets.py",
    "frontier/redis/packing.py",
    "frontier/redis/frontier.py",
    "frontier/redis/lua",
    "model/outcome.py",
    "model/pace.py",
    "model/adaptive_delay.py",
    "model/url",
    "engine/commit.py",
    "engine/leases.py",
    "engine/lease_feed.py",
    "engine/outputs.py",
    "engine/attempts.py",
    "engine/parsing.py",
    "sinks",
    "archive",
    "fetch/interpret.py",
    "fetch/robots.py",
    "fetch/robots_txt.py",
    "fetch/cookies.py",
    "fetch/gate.py",
    "fetch/shared_gate.py",
    "fetch/http/guard.py",
    "services/schedules/rules.py",
    "server/access",
)
_CONTRACT = "tests/contract/test_frontier"
# Tried on what the near tests leave alive, and on scripts, whose lines no coverage sees.
WIDER = {
    "frontier/redis/lua/repair": (f"{_CONTRACT}_repair.py", "tests/adversary/test_damage.py"),
    "frontier/redis": (
        f"{_CONTRACT}.py::TestFleet",
        f"{_CONTRACT}_redis.py",
        f"{_CONTRACT}_interrupted_scripts.py",
        f"{_CONTRACT}_idle_hosts.py",
        f"{_CONTRACT}_repair.py",
        f"{_CONTRACT}_model.py",
        "tests/integration/frontier/redis",
    ),
    "frontier": (f"{_CONTRACT}_model.py", f"{_CONTRACT}_kill.py"),
    "engine": ("tests/e2e/test_cli_crawl.py", "tests/crash/test_kill.py"),
    "sinks/postgres": ("tests/integration/sinks/test_postgres.py",),
    "sinks": ("tests/contract/test_sinks.py", "tests/contract/test_item_streams.py"),
    "archive": ("tests/integration/archive", "tests/e2e/test_cli_verify.py"),
    "fetch": (
        "tests/contract/test_client.py",
        "tests/corpora/test_robots.py",
        "tests/e2e/test_politeness.py",
    ),
    "model/url": ("tests/corpora/test_url_conformance.py",),
    "server/access": ("tests/integration/server/test_access.py",),
}


def files(source: Path, only: str) -> list[Path]:
    """Return the files to change whose path starts with `only`."""
    found: list[Path] = []
    for subject in SUBJECTS:
        at = source / subject
        found += [at] if at.is_file() else sorted([*at.rglob("*.py"), *at.rglob("*.lua")])
    return [file for file in found if str(file.relative_to(source)).startswith(only)]


def wider(path: str, root: Path) -> list[str]:
    """Return the wider tests of a file that exist, from the longest prefix that has some."""
    inside = path.removeprefix("src/shoal/")
    prefixes = sorted((prefix for prefix in WIDER if inside.startswith(prefix)), key=len)
    return [test for test in WIDER[prefixes[-1]] if (root / test.split("::")[0]).exists()] if prefixes else []
