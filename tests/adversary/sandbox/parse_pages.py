"""Parse pages with one spider and print the answers as JSON: `python -m ... SPIDER MODE PATH...`."""

import asyncio
import json
import logging
import os
import sys
from typing import Any

from tests.unit.parse.tasks import task

from shoal.model.errors import Misconfigured
from shoal.model.limits import ParseLimits
from shoal.model.page import ParseResult
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.parse.pool import ParsePool, Poisoned
from shoal.spider.source import SpiderFile


class Events(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.names.append(record.getMessage())


async def parse(spider: str, mode: str, paths: list[str]) -> dict[str, Any]:
    answers: list[ParseResult | Poisoned] = []
    rules = SandboxRules(
        SandboxMode(mode),
        environment=("PROBE_VISIBLE",),
        private=(os.environ["PROBE_STORE"],),
        readable=tuple(filter(None, os.environ["PROBE_READABLE"].split(","))),
    )
    events = Events()
    logging.getLogger().addHandler(events)
    async with ParsePool.open(SpiderFile(spider), procs=1, limits=ParseLimits(), sandbox=rules) as pool:
        for number, path in enumerate(paths):
            pool.submit(task(number, path), answers.append)
            await pool.drain()
        return {
            "held": sorted(pool.confinement),
            "warning": pool.sandbox_warning,
            "events": events.names,
            "answers": [
                answer.reason
                if isinstance(answer, Poisoned)
                else answer.fault.reason + answer.fault.detail
                if answer.fault
                else [json.loads(item.json) for item in answer.items]
                for answer in answers
            ],
        }


def main() -> None:
    spider, mode, *paths = sys.argv[1:]
    facts_file = os.path.join(os.path.dirname(spider), "probes.json")
    if os.path.exists(facts_file):
        with open(facts_file) as file:
            facts = json.load(file)
        with open(facts_file, "w") as file:
            json.dump({**facts, "worker": os.getpid(), "secrets": secrets(facts["secrets"])}, file)
    try:
        print(json.dumps(asyncio.run(parse(spider, mode, paths))))
    except Misconfigured as error:
        print(json.dumps({"refused": str(error)}))


def secrets(given: list[str]) -> list[str]:
    return [*given, f"/proc/{os.getpid()}/environ", f"/proc/{os.getpid()}/mem", f"/proc/{os.getpid()}/maps"]


if __name__ == "__main__":
    main()
