"""`shoal graph`: which hosts or pages of a crawl link to which."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, examples, option

if TYPE_CHECKING:
    from shoal.services.analysis.link_graph import LinkGraph

EXAMPLES = examples(
    ("The hosts of a crawl, and the strongest links between them", "shoal graph --crawl news"),
    ("A picture, drawn by Graphviz", "shoal graph --out hosts.dot && sfdp -Tsvg hosts.dot > hosts.svg"),
    ("The pages of a small site, for Gephi or NetworkX", "shoal graph --by page --out pages.graphml"),
    ("The 500 largest hosts, for a program", "shoal graph --limit 500 --json"),
)
LINES = 20  # nodes and edges that are printed

By = Annotated[str, option("--by", "host|page", "What a node of the graph is.", default="host")]
Limit = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=100_000,
        help="The N nodes with most pages and links. [dim]Default: 1000.[/dim]",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None, option("--out", "FILE", "Write it as .dot (Graphviz), .graphml or .json; replaced.")
]


def command(
    *,
    store: Store = None,
    crawl: Crawl = None,
    by: By = "host",
    limit: Limit = 1000,
    out: Out = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show or write the link graph of a crawl: which hosts, or pages, link to which.

    From the links that were followed, as the fetch log has them; a link to a page that was known already is
    not among them. Reads only; safe while a crawl runs. shoal serve draws the same graph in a browser.
    """
    from asyncio import run

    import msgspec

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.format import plural
    from shoal.cli.views.output import print_json, print_line, print_lines
    from shoal.model.errors import Misconfigured
    from shoal.services.analysis.link_graph import GraphLevel, read_link_graph, write_link_graph, writer_for

    if by not in list(GraphLevel):
        raise Misconfigured(f"--by {by!r}: must be one of {', '.join(GraphLevel)}")
    if out is not None:
        writer_for(out)  # an ending that is not known is said before the log is read
    address = chosen_store(store, config=config)
    graph = run(read_link_graph(address, crawl, by=GraphLevel(by), limit=limit))
    if out is not None:
        write_link_graph(graph, out)
    if json:
        print_json(msgspec.to_builtins(graph))
    elif out is not None:
        print_line(f"{out}: {plural(len(graph.nodes), by)}, {plural(len(graph.edges), 'edge')}")
    else:
        print_lines(graph_lines(graph))


def graph_lines(graph: "LinkGraph") -> Iterator[str]:
    """Yield the largest nodes and the strongest edges."""
    from shoal.cli.views.format import count, table

    nodes, edges = graph.nodes[:LINES], graph.edges[:LINES]
    rows = [(node.name, count(node.pages), count(node.failures), count(node.incoming)) for node in nodes]
    yield from table((graph.by.value, "pages", "failed attempts", "links from others"), rows)
    if graph.total > len(nodes):
        yield f"and {count(graph.total - len(nodes))} more; --out FILE and --json have up to --limit"
    yield ""
    if not edges:
        other = "; --by page shows the links between pages" if graph.by.value == "host" else ""
        yield f"no link from one {graph.by.value} to another was followed{other}"
        return
    rows_of_edges = [(edge.source, edge.target, count(edge.links)) for edge in edges]
    yield from table(("from", "to", "links"), rows_of_edges, words=(0, 1))
    if len(graph.edges) > len(edges):
        yield f"and {count(len(graph.edges) - len(edges))} more"
