"""`shoal token`: the tokens of the HTTP API."""

import time
from typing import Annotated

import typer

from shoal.cli.input.options import Json, examples, option
from shoal.cli.input.token_file import TokenFile, token_path
from shoal.model.errors import Misconfigured

ADD_EXAMPLES = examples(
    ("For a script that submits crawls", "shoal token add nightly --role operate"),
    ("For Prometheus", "shoal token add prometheus --role read"),
    ("For a colleague, for a month", "shoal token add sam --role admin --expires 30d"),
)
LIST_EXAMPLES = examples(("Who has access?", "shoal token list"))
REMOVE_EXAMPLES = examples(("End access at once", "shoal token remove nightly"))

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.", show_default=False)]
RoleName = Annotated[
    str,
    option("--role", "ROLE", "read, operate (submit, pause, replay) or admin (delete, purge)."),
]


@app.callback(invoke_without_command=True)
def token(context: typer.Context) -> None:
    """Tokens of the HTTP API."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("add", epilog=ADD_EXAMPLES)
def add_command(
    name: Name,
    *,
    role: RoleName = "read",
    expires: Annotated[str | None, option("--expires", "AGE", "How long: 12h, 30d.", default="never")] = None,
    tokens: TokenFile = None,
    json: Json = False,
) -> None:
    """Make a token and print it: this is the only time.

    The file keeps a hash of it. A running shoal serve accepts it at once.
    """
    from shoal.cli.input.dead_letter_filters import age
    from shoal.cli.views.output import print_json, print_line
    from shoal.model.api.roles import Role
    from shoal.server.access.tokens import add_token

    if role not in list(Role):
        raise Misconfigured(f"--role {role!r}: known roles are {', '.join(Role)}")
    path = token_path(tokens)
    made = add_token(path, name, Role(role), expires_s=age("--expires", expires))
    if json:
        print_json({"name": name, "role": role, "token": made, "file": str(path)})
    else:
        print_line(made)


@app.command("list", epilog=LIST_EXAMPLES)
def list_command(*, tokens: TokenFile = None, json: Json = False) -> None:
    """List the tokens: names, roles and dates."""
    from shoal.cli.views.format import utc_time
    from shoal.cli.views.output import print_json, print_lines
    from shoal.server.access.tokens import read_tokens

    path, now = token_path(tokens), time.time()
    known = read_tokens(path)
    if json:
        found = [
            {"name": one.name, "role": one.role, "created_at": one.created_at, "expires_at": one.expires_at}
            for one in known
        ]
        print_json({"file": str(path), "tokens": found})
        return
    lines = [
        f"{one.name:<24} {one.role:<8} made {utc_time(one.created_at)}"
        + ("" if one.expires_at is None else f", expires {utc_time(one.expires_at)}")
        + (" (expired)" if one.is_expired(now) else "")
        for one in known
    ]
    print_lines(lines or [f"{path} has no tokens; shoal token add NAME makes one"])


@app.command("remove", epilog=REMOVE_EXAMPLES)
def remove_command(name: Name, *, tokens: TokenFile = None, json: Json = False) -> None:
    """Remove a token. A running shoal serve refuses it at once."""
    from shoal.cli.views.output import print_json, print_line
    from shoal.server.access.tokens import remove_token

    path = token_path(tokens)
    remove_token(path, name)
    if json:
        print_json({"removed": name, "file": str(path)})
    else:
        print_line(f"token {name} is removed")
