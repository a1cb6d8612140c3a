"""`shoal dlq`: what was given up and why, and giving it another chance, or none."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.dead_letter_filters import Asked, on_letters
from shoal.cli.input.options import Config, Crawl, Json, Store, Yes, examples, option
from shoal.cli.views.format import counted
from shoal.model.errors import Misconfigured
from shoal.stores.address import shown_store

if TYPE_CHECKING:
    from shoal.services.control.dead_letters import DeadLetter

LIST_EXAMPLES = examples(
    ("What was given up, latest first", "shoal dlq list"),
    ("Only time-outs of one host", "shoal dlq list --class timeout --host shop.example"),
    ("What failed during the last hour", "shoal dlq list --newer 1h"),
)
SHOW_EXAMPLES = examples(
    ("Everything about one letter", "shoal dlq show https://shop.example/item/7"),
    ("By the trace id of a log line", "shoal dlq show 1f0c2b3a4d5e6f70"),
)
REPLAY_EXAMPLES = examples(
    ("Try all time-outs again: put them back, then crawl on", "shoal dlq replay --class timeout"),
    ("One host, at most 100", "shoal dlq replay --host shop.example --limit 100"),
    ("All of them, in a script", "shoal dlq replay --yes"),
)
PURGE_EXAMPLES = examples(
    ("Forget what was given up more than 30 days ago", "shoal dlq purge --older 30d"),
    ("Forget a section that nobody needs", "shoal dlq purge --match /calendar/ --yes"),
)
EXPORT_EXAMPLES = examples(
    ("One JSON object a line", "shoal dlq export --class http_error | jq -r .url"),
    ("Into a file", "shoal dlq export --out letters.jsonl"),
)

SHOWN = 50  # letters listed unless asked for more

app = typer.Typer()


@app.callback(invoke_without_command=True)
def dlq(context: typer.Context) -> None:
    """Dead letters: requests that were given up."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", epilog=LIST_EXAMPLES)
@on_letters
def list_command(asked: Asked) -> None:
    """List what was given up: class, attempts and reason.

    Latest first, 50 unless --limit says otherwise. Safe while a crawl runs.
    """
    from shoal.cli.views.dead_letters import letter_json, letter_lines

    found = _found(replace(asked, choice=replace(asked.choice, limit=asked.choice.limit or SHOWN)))
    _answer(
        asked.address,
        "\n".join(letter_lines(found)),
        json=asked.json,
        dead_letters=[letter_json(letter) for letter in found],
    )


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
    """Show everything that is known of one letter.

    Values of headers and the body are left out: they may hold secrets. Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.dead_letters import letter_json, whole_letter
    from shoal.services.control.dead_letters import find_letters

    address = chosen_store(store, config=config)
    found = run(find_letters(address, crawl, which))
    if not found:
        raise Misconfigured(
            f"no dead letter {which!r} in {shown_store(address)}; shoal dlq list shows those there are"
        )
    _answer(
        address,
        "\n\n".join("\n".join(whole_letter(letter)) for letter in found),
        json=json,
        dead_letters=[letter_json(letter) for letter in found],
    )


@app.command("replay", epilog=REPLAY_EXAMPLES)
@on_letters
def replay_command(asked: Asked, *, yes: Yes = False) -> None:
    """Put dead letters back into the queue.

    They start with a clean slate; the crawl's own command takes them up. Asks before it puts back all there
    are.
    """
    from asyncio import run

    from shoal.cli.input.confirm import require_yes
    from shoal.services.control.dead_letters import DeadLetterFilter, replay

    if asked.choice == DeadLetterFilter() and (found := _found(asked)):
        all_of_them = f"{counted(len(found), 'dead letter')} of {shown_store(asked.address)}"
        require_yes(f"put all {all_of_them} back?", yes=yes)
    count = run(replay(asked.address, asked.choice))
    told = f"{counted(count, 'request')} put back in the queue; the crawl's own command goes on with it"
    _answer(asked.address, told, json=asked.json, replayed=count)


@app.command("purge", epilog=PURGE_EXAMPLES)
@on_letters
def purge_command(asked: Asked, *, yes: Yes = False) -> None:
    """Throw dead letters away, for good.

    Their requests stay counted as dead and are not fetched again. Asks first.
    """
    from asyncio import run

    from shoal.cli.input.confirm import require_yes
    from shoal.services.control.dead_letters import purge

    if found := _found(asked):
        these = f"{counted(len(found), 'dead letter')} of {shown_store(asked.address)}"
        require_yes(f"throw {these} away, for good?", yes=yes)
    count = run(purge(asked.address, asked.choice))
    _answer(asked.address, f"{counted(count, 'dead letter')} thrown away", json=asked.json, purged=count)


@app.command("export", epilog=EXPORT_EXAMPLES)
@on_letters
def export_command(
    asked: Asked,
    *,
    out: Annotated[str | None, option("--out", "PATH", "A file.", default="standard output")] = None,
) -> None:
    """Write dead letters as JSON lines, latest first.

    Safe while a crawl runs.
    """
    from shoal.cli.views.dead_letters import letter_json
    from shoal.cli.views.output import json_text, put

    lines = [json_text(letter_json(letter)) for letter in _found(asked)]
    if out in (None, "-"):
        for line in lines:
            put(line)
        return
    try:
        with open(out, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise Misconfigured(f"--out {out}: cannot be written: {error.strerror}") from None
    told = f"{counted(len(lines), 'dead letter')} written to {out}"
    _answer(asked.address, told, json=asked.json, exported=len(lines), out=out)


def _found(asked: Asked) -> "list[DeadLetter]":
    from asyncio import run

    from shoal.services.control.dead_letters import dead_letters

    return run(dead_letters(asked.address, asked.choice))


def _answer(address: str, text: str, *, json: bool, **facts: object) -> None:
    """Print what came of it, for people or for programs."""
    from shoal.cli.views.output import put, put_json

    if json:
        put_json({"store": shown_store(address), **facts})
    else:
        put(text)
