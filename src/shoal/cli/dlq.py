"""`shoal dlq`: what was given up and why, and giving it another chance."""

import time
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.figures import counted
from shoal.cli.log import shown
from shoal.cli.options import Config, Crawl, Json, Store, examples, option
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass

if TYPE_CHECKING:
    from shoal.runtime.inspect import DeadLetter

LIST_EXAMPLES = examples(
    ("What was given up, latest first", "shoal dlq list"),
    ("Only time-outs of one host", "shoal dlq list --class timeout --host shop.example"),
)
REPLAY_EXAMPLES = examples(
    ("Try all time-outs again: put them back, then crawl on", "shoal dlq replay --class timeout"),
    ("One host, at most 100", "shoal dlq replay --host shop.example --limit 100"),
)

SHOWN = 50  # letters listed unless asked for more

app = typer.Typer()

Kind = Annotated[str | None, option("--class", "CLASS", "Only this failure class.", default="all")]
Host = Annotated[str | None, option("--host", "HOST", "Only this host.", default="all")]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.", show_default=False)]


@app.callback(invoke_without_command=True)
def dlq(context: typer.Context) -> None:
    """Dead letters: requests that were given up."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", epilog=LIST_EXAMPLES)
def list_command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    kind: Kind = None,
    host: Host = None,
    limit: Limit = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List what was given up: class, attempts and reason.

    Latest first, 50 unless --limit says otherwise. Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.layers import chosen_store
    from shoal.cli.output import put, put_json
    from shoal.runtime.inspect import dead_letters

    folder = chosen_store(store, config=config)
    found = run(dead_letters(folder, crawl, kind=failure_class(kind), host=host or "", limit=limit or SHOWN))
    if json:
        put_json({"store": folder, "dead_letters": [letter_json(letter) for letter in found]})
    else:
        put("\n".join(letter_lines(found)))


@app.command("replay", epilog=REPLAY_EXAMPLES)
def replay_command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    kind: Kind = None,
    host: Host = None,
    limit: Limit = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Put dead letters back into the queue.

    They start with a clean slate; the crawl's own command takes them up.
    """
    from asyncio import run

    from shoal.cli.layers import chosen_store
    from shoal.cli.output import put, put_json
    from shoal.runtime.inspect import replay

    folder = chosen_store(store, config=config)
    count = run(replay(folder, crawl, kind=failure_class(kind), host=host or "", limit=limit))
    if json:
        put_json({"store": folder, "replayed": count})
    else:
        put(f"{counted(count, 'request')} put back; run the crawl's command again to fetch them")


def failure_class(text: str | None) -> FailureClass | None:
    """Read a --class against the closed set."""
    if text is None:
        return None
    try:
        return FailureClass(text)
    except ValueError:
        close = get_close_matches(text, list(FailureClass), n=1, cutoff=0.4)
        advice = f"; did you mean {close[0]}?" if close else ""
        raise Misconfigured(f"--class {text!r}: no such failure class{advice}") from None


def letter_json(letter: "DeadLetter") -> dict[str, object]:
    return {
        "crawl": letter.crawl,
        "url": letter.request.url,
        "host": letter.host,
        "class": letter.kind.value,
        "reason": letter.reason,
        "status": letter.status,
        "attempts": letter.attempts,
        "crashes": letter.crashes,
        "first_at": letter.first_at,
        "died_at": letter.died_at,
        "trace": letter.trace,
        "page_kept": letter.page is not None,
    }


def letter_lines(letters: Sequence["DeadLetter"]) -> Iterator[str]:
    """Two lines a letter: when, what class and where; then how often tried and why."""
    if not letters:
        yield "no dead letters"
    for letter in letters:
        when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(letter.died_at))
        yield f"{when}  {letter.kind.value}  {letter.request.url}"
        yield f"    {letter.crawl}: {counted(letter.attempts, 'attempt')}; {shown(letter.reason)}"
