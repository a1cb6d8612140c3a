"""The crawlers that are compared, each as the command a user would type."""

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
class Crawler:
    """One way of doing the job. `command` takes the start URL and an empty folder for what it writes."""

    name: str
    command: Callable[[str, Path], list[str]]
    env: Mapping[str, str] = field(default_factory=dict)
    cap: int = 0  # pages after which it stops; 0: it crawls everything
    all_cores: bool = False

    def items(self, folder: Path) -> list[bytes]:
        """Return the lines it wrote."""
        files = sorted(folder.glob("items.jsonl*"))
        return [line for file in files for line in file.read_bytes().splitlines()]


def minimal(*, processes: int = 1) -> Crawler:
    def command(url: str, folder: Path) -> list[str]:
        return [
            *(sys.executable, "-m", "bench.minimal", url, str(folder / "items.jsonl")),
            *("--concurrency", str(CONCURRENCY), "--processes", str(processes)),
        ]

    name = "minimal" if processes == 1 else f"minimal x{processes}"
    return Crawler(name, command, FAST_HEAP, all_cores=processes > 1)


def shoal(*, all_cores: bool = False) -> Crawler:
    return Crawler("shoal", shoal_command, all_cores=all_cores)


def shoal_command(url: str, folder: Path) -> list[str]:
    """Crawl with everything on that Shoal does by itself: robots.txt, limits, durable frontier, archive."""
    fields = [part for name, selector in FIELDS.items() for part in ("--item", f"{name}={selector}")]
    return [
        *(str(Path(sys.executable).with_name("shoal")), "crawl", url, *fields),
        *("--store", str(folder / "store"), "--out", str(folder / "items.jsonl")),
        *("--rate", "0", "--concurrency", str(CONCURRENCY), "--per-host", str(CONCURRENCY)),
        *("--allow-private", "--quiet"),
    ]


def scrapy(*, cap: int, follow: bool = True) -> Crawler:
    """Follow links up to `cap` pages, or fetch a list of that many: links are most of Scrapy's cost."""

    def command(url: str, folder: Path) -> list[str]:
        fields = [f"--field={name}={selector}" for name, selector in FIELDS.items()]
        job = [f"--cap={cap}"]
        if not follow:
            urls = folder / "urls"
            urls.write_text("\n".join(path_of(number) for number in range(cap)))
            job = [f"--list={urls}"]
        script, out = str(ROOT / "bench" / "scrapy_job.py"), str(folder / "items.jsonl")
        # -P: the names of the modules beside the script are not for Scrapy to import.
        return [str(_scrapy_python()), "-P", script, url, out, f"--concurrency={CONCURRENCY}", *fields, *job]

    return Crawler("scrapy" if follow else "scrapy, list", command, cap=cap)


def _scrapy_python() -> Path:
    """Return the interpreter of an environment with the pinned Scrapy, made on first use."""
    requirements = ROOT / "requirements" / "bench.txt"
    folder = CACHE / "bench-venv"
    python, stamp = folder / "bin" / "python", folder / "installed"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"making {folder} with Scrapy (once, about a minute)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(requirements)], check=True)
        stamp.write_text(digest)
    return python
