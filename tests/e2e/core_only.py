"""Run every command without the extras: `python core_only.py`.

The interpreter needs Shoal and nothing else, so that the same file runs with a wheel that was installed alone (`make
wheel-test`) and, with packages hidden by `hidden_packages`, among the tests. It crawls the shop of `shoal demo`.

Every command of `shoal --help` must be in the table `COMMANDS`: it either works, or it says which extra it needs.
Every command with `--store` must say which extra a shared store needs.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

SPIDER = """\
import shoal

spider = shoal.Spider("shop", start=["{site}"])


@spider.page()
def listing(page):
    yield from page.links("a.category, ul.products a.product")
    yield {{"title": page.css("h1::text").get()}}
"""
SHARED = "redis://127.0.0.1:1"
REDIS = "pip install 'shoal[redis]'"


@dataclass(frozen=True)
class Step:
    command: str
    arguments: str
    extra: str = ""  # that the command needs; empty: none
    code: int = 0
    typed: str = ""  # on standard input


COMMANDS = [
    Step("init", "init project"),
    Step("demo", "demo --quiet"),
    Step("crawl", "crawl shop.py --allow-private --rate 0 --out items.jsonl --out items.csv --out items.db"),
    Step("crawl", "crawl {site} --allow-private --rate 0 --store memory: --out other.jsonl"),
    Step("crawl", "crawl shop.py --store other --out items.parquet", "parquet"),
    Step("crawl", "crawl shop.py --store other --out postgresql://me@127.0.0.1:1/db", "postgres"),
    Step("submit", "submit shop.py", "redis"),
    Step("worker", "worker", "redis"),
    Step("fleet", "fleet shop.py", "redis"),
    Step("status", "status"),
    Step("top", "top"),
    Step("alerts", "alerts"),
    Step("autoscale", "autoscale", code=1),  # a folder has no workers
    Step("serve", "serve", "serve"),
    Step("token add", "token add ci --role read --token-file tokens.json"),
    Step("token list", "token list --token-file tokens.json"),
    Step("token remove", "token remove ci --token-file tokens.json"),
    Step("verify", "verify --deep"),
    Step("trace", "trace {site}"),
    Step("dlq list", "dlq list"),
    Step("dlq show", "dlq show 00000000deadbeef", code=1),
    Step("dlq replay", "dlq replay --yes"),
    Step("dlq purge", "dlq purge --yes"),
    Step("dlq export", "dlq export"),
    Step("host show", "host show {host}"),
    Step("host set-rate", "host set-rate {host} 1"),
    Step("host pause", "host pause {host}"),
    Step("host block", "host block {host}"),
    Step("host resume", "host resume {host}"),
    Step("host refresh-robots", "host refresh-robots {host}"),
    Step("host set-level", "host set-level {host} plain"),
    Step("host reset-level", "host reset-level {host}"),
    Step("plan", "plan"),
    Step("urls", "urls"),
    Step("sql", "sql", "sql"),
    Step("report", "report", "sql"),
    Step("graph", "graph", "sql"),
    Step("proxy list", "proxy list"),
    Step("proxy check", "proxy check {site} --allow-private --proxy http://127.0.0.1:1", code=2),
    Step("proxy rest", "proxy rest nowhere", code=1),
    Step("schedule add", "schedule add nightly --every 6h -- shop.py --out {{tick}}.jsonl"),
    Step("schedule list", "schedule list"),
    Step("schedule pause", "schedule pause nightly"),
    Step("schedule resume", "schedule resume nightly"),
    Step("schedule run", "schedule run --once"),
    Step("schedule remove", "schedule remove nightly"),
    Step("accept", "accept shop", code=1),  # nothing was held back
    Step("release", "release shop"),
    Step("pause", "pause"),
    Step("resume", "resume"),
    Step("reparse", "reparse shop.py"),
    Step("reparse", "reparse shop.py --commit --out again.csv"),
    Step("reparse", "reparse shop.py --commit --out again.parquet", "parquet"),
    Step("diff", "diff shop", code=1),  # one generation cannot be compared
    Step("export", "export --out copy.db"),
    Step("export", "export --out pages.warc.gz"),
    Step("export", "export --from items.csv --out copy.jsonl"),
    Step("export", "export --from archive --spider shop.py --out made.jsonl"),
    Step("export", "export --out copy.parquet", "parquet"),
    Step("export", "export --from postgresql://me@127.0.0.1:1/db --out x.csv", "postgres"),
    Step("shell", "shell {site} --allow-private", typed='css("h1::text").get()\n'),
    Step("try", "try shop.py {site} --allow-private"),
    Step("doctor", "doctor"),
    Step("delete", "delete shop --yes"),
    Step("forget", "forget shop --yes", code=1),  # it is deleted already
]
# Imported once, before the first fork. None of these may need an extra.
PRELOADED = (
    "uvloop",
    "shoal.cli.app",
    "shoal.cli.main",
    "shoal.engine.embedded",
    "shoal.services.crawl",
    "shoal.services.reprocess.export",
    "shoal.stores.folder.store",
)
NO_STORE = {"demo", "init", "shell", "try", "token add", "token list", "token remove"}


def main() -> int:
    """Run all steps in a temporary folder; return 1 if one did not end as it should."""
    for module in PRELOADED:
        import_module(module)
    with tempfile.TemporaryDirectory(prefix="shoal-core-") as folder, open_site() as site:
        os.chdir(folder)
        Path("shop.py").write_text(SPIDER.format(site=site))
        steps = [*COMMANDS, *shared_store_steps()]
        failures = [line for step in steps for line in judge(step, site)]
    failures += [f"{name}: not in the table of commands" for name in sorted(missing_commands())]
    print("\n".join(failures) or f"core-only: {len(steps)} commands passed")
    return 1 if failures else 0


def shared_store_steps() -> list[Step]:
    """Return one step for each command that can be given a store."""
    first: dict[str, Step] = {}
    for step in COMMANDS:
        if step.command not in NO_STORE and step.extra in ("", "redis") and "--store" not in step.arguments:
            first.setdefault(step.command, step)
    first["crawl"] = Step("crawl", "crawl shop.py")
    return [
        Step(name, step.arguments.replace(name, f"{name} --store {SHARED}", 1), "redis")
        for name, step in first.items()
    ]


def missing_commands() -> set[str]:
    from shoal.cli.app import command

    found = set()
    for name, one in command().commands.items():
        inner = getattr(one, "commands", None)
        found |= {name} if inner is None else {f"{name} {other}" for other in inner}
    return found - {step.command for step in COMMANDS}


def judge(step: Step, site: str) -> Iterator[str]:
    """Yield what is wrong with the end of a command."""
    host = site.split("/")[2]
    arguments = [word.format(site=site, host=host) for word in step.arguments.split()]
    code, text = run(arguments, step.typed)
    problem = ""
    if step.extra:
        if code != 1 or f"pip install 'shoal[{step.extra}]'" not in text:
            problem = f"should name the extra {step.extra}"
    elif code != step.code or "pip install" in text.replace("if you want it: pip install", ""):
        problem = f"should end with {step.code}"
    if problem:
        yield f"shoal {' '.join(arguments)}\n  {problem}, and ended with {code}:\n  {text.strip()[-2000:]}"


def run(arguments: Sequence[str], typed: str) -> tuple[int, str]:
    """Run a command in a separate process; return its exit code and what it printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as given:
        given.write(typed.encode())
        given.seek(0)
        if (pid := os.fork()) == 0:
            os.dup2(given.fileno(), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            code = 70
            try:
                from shoal.cli.main import run as run_command

                sys.argv = ["shoal", *arguments]
                code = run_command(arguments)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        return os.waitstatus_to_exitcode(status), out.read().decode(errors="replace")


@contextmanager
def open_site() -> Iterator[str]:
    """Serve the demo shop from a separate process, so that this one has no threads when it forks."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        from shoal.cli.demo.server import open_shop
        from shoal.cli.demo.shop import Shop

        with open_shop(Shop(categories=1), latency=0.001) as site:
            os.write(writing, site.encode() + b"\n")
            signal.pause()
    os.close(writing)
    try:
        with open(reading) as line:
            yield line.readline().strip()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
