"""What a crawl of one page costs, which is mostly its start: `python -m bench.start [--rounds 8]`."""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

PAGE = b"<!DOCTYPE html><title>One page</title><h1>One page</h1>"


class OnePage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE) if found else 0))
        self.end_headers()
        self.wfile.write(PAGE if found else b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


def cpu_ms(url: str) -> float:
    """Crawl one page with the whole command; return the CPU time of all its processes in milliseconds."""
    # Compiled modules are kept, as in any installation.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder:
        command = [sys.executable, "-m", "shoal", "crawl", url, "--item", "title=h1", "--out", "items.jsonl"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--allow-private", "--quiet"], cwd=folder, env=env, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    server = HTTPServer(("127.0.0.1", 0), OnePage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    cpu_ms(url)  # the first one compiles modules
    measured = [cpu_ms(url) for _ in range(rounds)]
    best, median = min(measured), statistics.median(measured)
    print(f"a crawl of one page: {best:.0f} ms of CPU at best, {median:.0f} ms median")


if __name__ == "__main__":
    main()
