"""The crawlers that are compared, each as the command a user would type."""

import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.site import CACHE, FIELDS, path_of

ROOT = Path(__file__).parents[1]
CONCURRENCY = 100

# Keeps glibc from giving the parser's heap back after every page: the reference shall be at its best.
FAST_HEAP = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "268435456"}


@dataclass(frozen=True, slots=True)
class Job:
    """What a crawler is given for one run."""

    url: str  # where it starts
    folder: Path  # where it runs and writes; empty
    redis: str = ""  # a server, empty too, for those that want one


@dataclass(frozen=True, slots=True)
class Crawler:
    """One way of doing the job."""

    name: str
    command: Callable[[Job], list[str]]
    env: Mapping[str, str] = field(default_factory=dict)
    cap: int = 0  # pages after which it stops; 0: it crawls everything
    all_cores: bool = False
    on_redis: bool = False
    is_ours: bool = False

    def items(self, folder: Path) -> list[bytes]:
        """Return the lines it wrote: one file, or a numbered one for each process."""
        files = [*folder.glob("items.jsonl"), *folder.glob("items.jsonl.[0-9]*")]
        return [line for file in files for line in file.read_bytes().splitlines()]


def minimal(*, processes: int = 1) -> Crawler:
    def command(job: Job) -> list[str]:
        return [
            *(sys.executable, "-m", "bench.minimal", job.url, str(job.folder / "items.jsonl")),
            *("--concurrency", str(CONCURRENCY), "--processes", str(processes)),
        ]

    name = "minimal" if processes == 1 else f"minimal x{processes}"
    env = FAST_HEAP | {"PYTHONPATH": str(ROOT)}
    return Crawler(name, command, env, all_cores=processes > 1)


def shoal(*, all_cores: bool = False, on_redis: bool = False) -> Crawler:
    """Crawl alone, in a folder; or as the one worker of a fleet's store."""
    name = "shoal, Redis" if on_redis else "shoal"
    return Crawler(name, shoal_command, all_cores=all_cores, on_redis=on_redis, is_ours=True)


def shoal_command(job: Job) -> list[str]:
    """Crawl with everything on that Shoal does by itself: robots.txt, limits, durable frontier, archive."""
    fields = [part for name, selector in FIELDS.items() for part in ("--item", f"{name}={selector}")]
    return [
        *(str(Path(sys.executable).with_name("shoal")), "crawl", job.url, *fields),
        *("--store", job.redis or str(job.folder / "store"), "--out", str(job.folder / "items.jsonl")),
        *("--rate", "0", "--concurrency", str(CONCURRENCY), "--per-host", str(CONCURRENCY)),
        *("--allow-private", "--quiet"),
    ]


def scrapy(*, cap: int, follow: bool = True, on_redis: bool = False) -> Crawler:
    """Follow links up to `cap` pages, or fetch a list of that many: links are most of Scrapy's cost.

    On Redis it is scrapy-redis: the queue and the set of what was seen are there.
    """

    def command(job: Job) -> list[str]:
        asked = [f"--field={name}={selector}" for name, selector in FIELDS.items()]
        if follow:
            asked.append(f"--cap={cap}")
        else:
            urls = job.folder / "urls"
            urls.write_text("\n".join(path_of(number) for number in range(cap)))
            asked.append(f"--list={urls}")
        if job.redis:
            asked.append(f"--redis={job.redis}")
        script, out = str(ROOT / "bench" / "scrapy_job.py"), str(job.folder / "items.jsonl")
        # -P: the names of the modules beside the script are not for Scrapy to import.
        return [str(scrapy_python()), "-P", script, job.url, out, f"--concurrency={CONCURRENCY}", *asked]

    name = "scrapy-redis" if on_redis else "scrapy" if follow else "scrapy, list"
    return Crawler(name, command, cap=cap, on_redis=on_redis)


def scrapy_python() -> Path:
    """Return the interpreter of an environment with the pinned Scrapy, made on first use."""
    requirements = ROOT / "requirements" / "bench.txt"
    folder = CACHE / "bench-venv"
    python, stamp = folder / "bin" / "python", folder / "installed"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "bench-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests want it, too, several at the same time
        if not stamp.exists() or stamp.read_text() != digest:
            print(f"making {folder} with Scrapy (once, up to a minute)", flush=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pinned = ["--quiet", "--require-hashes", "-r", str(requirements)]
            # As `make setup` does it: uv is quick, pip knows its own settings.
            uv = [sys.executable, "-m", "uv", "pip", "install", "--python", str(python), *pinned]
            if subprocess.run(uv, check=False).returncode:
                subprocess.run([str(python), "-m", "pip", "install", *pinned], check=True)
            stamp.write_text(digest)
    return python
