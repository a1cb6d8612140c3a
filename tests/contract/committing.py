"""A process that uses a frontier until it is killed: `python -m tests.contract.committing STORE SEED`.

It writes to its standard output what the frontier has confirmed: `seen N` once a link is accepted, `done N`
once a request is settled.
"""

import asyncio
import itertools
import random
import sys
from pathlib import Path

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Done, Fetched, Lease, Outcome, Released, Retry, Settlement
from shoal.testing.contracts.frontier import UNLIMITED, link, page


def report(word: str, numbers: list[int]) -> None:
    sys.stdout.write("".join(f"{word} {number}\n" for number in numbers))
    sys.stdout.flush()


def number_of(lease: Lease) -> int:
    return int(lease.request.url.rsplit("/", 1)[1])


async def work(path: Path, rng: random.Random) -> None:
    async with SqliteFrontier.open(path, sweep_every=100) as frontier:
        await frontier.crawls.open("c", pace=UNLIMITED, max_crashes=1000)
        numbers = itertools.count((await frontier.reader.counts("c")).accepted)
        while True:
            first = [next(numbers) for _ in range(20)]
            await frontier.add("c", [link(str(number), host=f"{number % 5}.test") for number in first])
            report("seen", first)
            grant = await frontier.lease(holder="child", limit=16, ttl=60.0)
            done, more, settlements, parsed = [], [], [], []
            for lease in grant.leases:
                new = next(numbers)
                outcomes: list[Outcome] = [
                    Done(page(number_of(lease))),
                    Fetched(page(number_of(lease))),
                    Retry(Failure(FailureClass.TIMEOUT, "no answer"), delay=rng.random() / 10),
                    Released(),
                ]
                outcome = rng.choice(outcomes)
                if isinstance(outcome, Done | Fetched):
                    done.append(number_of(lease))
                if isinstance(outcome, Fetched) and rng.random() < 0.9:
                    parsed.append(Acknowledgement("c", lease.fingerprint, Done(outcome.page)))
                more.append(new)
                settlements.append(Settlement(lease, outcome, [link(str(new), host=f"{new % 5}.test")]))
            await frontier.commit(settlements, parsed, {"written": str(max(more, default=0)).encode()})
            report("seen", more)
            report("done", done)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), random.Random(int(sys.argv[2]))))
