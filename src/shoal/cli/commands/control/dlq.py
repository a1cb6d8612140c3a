"""`shoal dlq`: dead letters: list, show, replay, purge and export them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.dead_letter_filters import DeadLetterOptions
from shoal.cli.input.options import Config, Crawl, Json, Store, Yes, add_command, examples, option
from shoal.cli.views.format import plural
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.control.dead_letters import DeadLetter

LIST_EXAMPLES = examples(
    ("Requests that were given up, latest first", "shoal dlq list"),
    ("Only time-outs of one host", "shoal dlq list --class timeout --host shop.example"),
    ("Failures of the last hour", "shoal dlq list --newer 1h"),
)
SHOW_EXAMPLES = examples(
    ("Everything about one letter", "shoal dlq show https://shop.example/item/7"),
    ("By the trace id of a log line", "shoal dlq show 1f0c2b3a4d5e6f70"),
)
REPLAY_EXAMPLES = examples(
    ("Retry all time-outs: put them back, then resume the crawl", "shoal dlq replay --class timeout"),
    ("One host, at most 100", "shoal dlq replay --host shop.example --limit 100"),
    ("All of them, in a script", "shoal dlq replay --yes"),
)
PURGE_EXAMPLES = examples(
    ("Delete what was given up more than 30 days ago", "shoal dlq purge --older 30d"),
    ("Delete one section of a site", "shoal dlq purge --match /calendar/ --yes"),
)
EXPORT_EXAMPLES = examples(
    ("One JSON object per line", "shoal dlq export --class http_error | jq -r .url"),
    ("Into a file", "shoal dlq export --out letters.jsonl"),
)

DEFAULT_LIMIT = 50  # letters listed without --limit

app = typer.Typer()


@app.callback(invoke_without_command=True)
def dlq(context: typer.Context) -> None:
    """Dead letters: requests that were given up."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def list_command(options: DeadLetterOptions) -> None:
    """List dead letters: class, attempts and reason.

    Latest first, 50 without --limit. Safe while a crawl runs.
    """
    from shoal.cli.views.dead_letters import letter_lines
    from shoal.services.control.dead_letters import dead_letter_json

    found = _find(options if options.limit else replace(options, limit=DEFAULT_LIMIT + 1))
    more = not options.limit and len(found) > DEFAULT_LIMIT
    found = found[:DEFAULT_LIMIT] if more else found
    _print(
        options.address(),
        letter_lines(found, more=more),
        json=options.json,
        dead_letters=[dead_letter_json(letter) for letter in found],
    )


add_command(app, "list", DeadLetterOptions, list_command, epilog=LIST_EXAMPLES)


@app.command("show", epilog=SHOW_EXAMPLES)
def show_command(
    which: Annotated[
        str,
        typer.Argument(metavar="TRACE|URL", help="Its trace id, or its URL.", show_default=False),
    ],
    *,
    store: Store = None,
    crawl: Crawl = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show everything about one dead letter.

    Leaves out header values and the body: they may hold secrets. Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.dead_letters import letter_details
    from shoal.cli.views.output import separated
    from shoal.services.control.dead_letters import dead_letter_json, find_letters
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    found = run(find_letters(address, crawl, which))
    if not found:
        raise Misconfigured(
            f"no dead letter {which!r} in {public_address(address)}; shoal dlq list shows all of them"
        )
    _print(
        address,
        separated(letter_details(letter) for letter in found),
        json=json,
        dead_letters=[dead_letter_json(letter) for letter in found],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedOptions(DeadLetterOptions):
    """The options of a command that changes dead letters."""

    yes: Yes = False


def replay_command(options: ConfirmedOptions) -> None:
    """Put dead letters back into the queue.

    They start again with no attempts; run the crawl's command to resume. Asks for confirmation if no
    filter is set.
    """
    from asyncio import run

    from shoal.cli.input.confirm import require_yes
    from shoal.services.control.dead_letters import DeadLetterFilter, replay
    from shoal.services.store_address import public_address

    address, chosen = options.address(), options.filter()
    if chosen == DeadLetterFilter() and (found := _find(options)):
        all_of_them = f"{plural(len(found), 'dead letter')} of {public_address(address)}"
        require_yes(f"put all {all_of_them} back?", yes=options.yes)
    count = run(replay(address, chosen))
    text = f"{plural(count, 'request')} put back in the queue; run the crawl's command to resume"
    _print(address, [text], json=options.json, replayed=count)


add_command(app, "replay", ConfirmedOptions, replay_command, epilog=REPLAY_EXAMPLES)


def purge_command(options: ConfirmedOptions) -> None:
    """Delete dead letters. This cannot be undone.

    Their requests stay counted as dead and are not fetched again. Asks for confirmation.
    """
    from asyncio import run

    from shoal.cli.input.confirm import require_yes
    from shoal.services.control.dead_letters import purge
    from shoal.services.store_address import public_address

    address = options.address()
    if found := _find(options):
        these = f"{plural(len(found), 'dead letter')} of {public_address(address)}"
        require_yes(f"delete {these}?", yes=options.yes)
    count = run(purge(address, options.filter()))
    _print(address, [f"{plural(count, 'dead letter')} deleted"], json=options.json, purged=count)


add_command(app, "purge", ConfirmedOptions, purge_command, epilog=PURGE_EXAMPLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterExportOptions(DeadLetterOptions):
    """The options of `shoal dlq export`."""

    out: Annotated[str | None, option("--out", "PATH", "A file.", default="standard output")] = None


def export_command(options: DeadLetterExportOptions) -> None:
    """Write dead letters as JSON lines, latest first.

    Safe while a crawl runs.
    """
    from shoal.cli.views.output import json_text, print_json_lines
    from shoal.services.control.dead_letters import dead_letter_json

    found = [dead_letter_json(letter) for letter in _find(options)]
    lines = list(map(json_text, found))
    out = options.out
    if out is None or out == "-":
        print_json_lines(found)
        return
    try:
        with open(out, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise Misconfigured(f"--out {out}: cannot be written: {error.strerror}") from None
    text = f"{plural(len(lines), 'dead letter')} written to {out}"
    _print(options.address(), [text], json=options.json, exported=len(lines), out=out)


add_command(app, "export", DeadLetterExportOptions, export_command, epilog=EXPORT_EXAMPLES)


def _find(options: DeadLetterOptions) -> "list[DeadLetter]":
    from asyncio import run

    from shoal.services.control.dead_letters import dead_letters

    return run(dead_letters(options.address(), options.filter()))


def _print(address: str, lines: Iterable[str], *, json: bool, **facts: object) -> None:
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.store_address import public_address

    if json:
        print_json({"store": public_address(address), **facts})
    else:
        print_lines(lines)
