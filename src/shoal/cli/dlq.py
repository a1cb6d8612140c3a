"""`shoal dlq`: what was given up and why, and giving it another chance, or none."""

from typing import Annotated

import typer

from shoal.cli.figures import counted
from shoal.cli.options import Config, Crawl, Json, Store, examples, option
from shoal.model.errors import Misconfigured
from shoal.stores.address import shown_store

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

Kind = Annotated[str | None, option("--class", "CLASS", "Only this failure class.", default="all")]
Host = Annotated[str | None, option("--host", "HOST", "Only this host.", default="all")]
Older = Annotated[str | None, option("--older", "AGE", "Only given up at least so long ago: 90s, 2h, 7d.")]
Newer = Annotated[str | None, option("--newer", "AGE", "Only given up at most so long ago.")]
Match = Annotated[str | None, option("--match", "REGEX", "Only URLs that match.")]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.", show_default=False)]
Yes = Annotated[bool, option("--yes -y", "", "Do not ask.")]


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
    older: Older = None,
    newer: Newer = None,
    match: Match = None,
    limit: Limit = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List what was given up: class, attempts and reason.

    Latest first, 50 unless --limit says otherwise. Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.layers import chosen_store
    from shoal.cli.letters import choice_of, letter_json, letter_lines
    from shoal.cli.output import put, put_json
    from shoal.runtime.letters import dead_letters

    address = chosen_store(store, config=config)
    choice = choice_of(
        crawl, kind=kind, host=host, older=older, newer=newer, match=match, limit=limit or SHOWN
    )
    found = run(dead_letters(address, choice))
    if json:
        put_json({"store": shown_store(address), "dead_letters": [letter_json(letter) for letter in found]})
    else:
        put("\n".join(letter_lines(found)))


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

    from shoal.cli.layers import chosen_store
    from shoal.cli.letters import letter_json, whole_letter
    from shoal.cli.output import put, put_json
    from shoal.runtime.letters import find_letters

    address = chosen_store(store, config=config)
    found = run(find_letters(address, crawl, which))
    if not found:
        raise Misconfigured(
            f"no dead letter {which!r} in {shown_store(address)}; shoal dlq list shows those there are"
        )
    if json:
        put_json({"store": shown_store(address), "dead_letters": [letter_json(letter) for letter in found]})
    else:
        put("\n\n".join("\n".join(whole_letter(letter)) for letter in found))


@app.command("replay", epilog=REPLAY_EXAMPLES)
def replay_command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    kind: Kind = None,
    host: Host = None,
    older: Older = None,
    newer: Newer = None,
    match: Match = None,
    limit: Limit = None,
    yes: Yes = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Put dead letters back into the queue.

    They start with a clean slate; the crawl's own command takes them up. Asks before it puts back all there
    are.
    """
    from asyncio import run

    from shoal.cli.asking import require_yes
    from shoal.cli.layers import chosen_store
    from shoal.cli.letters import choice_of
    from shoal.cli.output import put, put_json
    from shoal.runtime.letters import Choice, dead_letters, replay

    address = chosen_store(store, config=config)
    choice = choice_of(crawl, kind=kind, host=host, older=older, newer=newer, match=match, limit=limit)
    if choice == Choice() and (found := run(dead_letters(address, choice))):
        require_yes(f"put all {counted(len(found), 'dead letter')} of {shown_store(address)} back?", yes=yes)
    count = run(replay(address, choice))
    if json:
        put_json({"store": shown_store(address), "replayed": count})
    else:
        put(f"{counted(count, 'request')} put back in the queue; the crawl's own command goes on with it")


@app.command("purge", epilog=PURGE_EXAMPLES)
def purge_command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    kind: Kind = None,
    host: Host = None,
    older: Older = None,
    newer: Newer = None,
    match: Match = None,
    limit: Limit = None,
    yes: Yes = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Throw dead letters away, for good.

    Their requests stay counted as dead and are not fetched again. Asks first.
    """
    from asyncio import run

    from shoal.cli.asking import require_yes
    from shoal.cli.layers import chosen_store
    from shoal.cli.letters import choice_of
    from shoal.cli.output import put, put_json
    from shoal.runtime.letters import dead_letters, purge

    address = chosen_store(store, config=config)
    choice = choice_of(crawl, kind=kind, host=host, older=older, newer=newer, match=match, limit=limit)
    if found := run(dead_letters(address, choice)):
        require_yes(
            f"throw {counted(len(found), 'dead letter')} of {shown_store(address)} away, for good?", yes=yes
        )
    count = run(purge(address, choice))
    if json:
        put_json({"store": shown_store(address), "purged": count})
    else:
        put(f"{counted(count, 'dead letter')} thrown away")


@app.command("export", epilog=EXPORT_EXAMPLES)
def export_command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    kind: Kind = None,
    host: Host = None,
    older: Older = None,
    newer: Newer = None,
    match: Match = None,
    limit: Limit = None,
    out: Annotated[str | None, option("--out", "PATH", "A file.", default="standard output")] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write dead letters as JSON lines, latest first.

    Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.layers import chosen_store
    from shoal.cli.letters import choice_of, letter_json
    from shoal.cli.output import json_text, put, put_json
    from shoal.runtime.letters import dead_letters

    address = chosen_store(store, config=config)
    choice = choice_of(crawl, kind=kind, host=host, older=older, newer=newer, match=match, limit=limit)
    lines = [json_text(letter_json(letter)) for letter in run(dead_letters(address, choice))]
    if out in (None, "-"):
        for line in lines:
            put(line)
        return
    try:
        with open(out, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise Misconfigured(f"--out {out}: cannot be written: {error.strerror}") from None
    if json:
        put_json({"store": shown_store(address), "exported": len(lines), "out": out})
    else:
        put(f"{counted(len(lines), 'dead letter')} written to {out}")
