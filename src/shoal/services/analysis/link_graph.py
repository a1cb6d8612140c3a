"""The link graph of a crawl, from the fetch log: between hosts, or between pages.

An edge is a link that was followed: the request that it brought was sent from the page where it was found
first. Links to what the crawl knew already are not in the log.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import msgspec

from shoal.model.errors import Misconfigured
from shoal.model.printable import printable
from shoal.services.analysis.query import LogDatabase, open_log

_NODES = """
SELECT
    name,
    count(DISTINCT url) FILTER (WHERE segment <> '') AS pages,
    count(*) FILTER (WHERE failure <> '' AND outcome NOT IN ('gone', 'filtered')) AS failures,
    any_value(coalesce(linked, 0)) AS incoming,
    count(*) OVER () AS total
FROM (SELECT {node} AS name, * FROM attempts)
LEFT JOIN (SELECT target AS name, sum(links) AS linked FROM ({edges}) GROUP BY 1) USING (name)
GROUP BY name
ORDER BY pages + incoming DESC, name
LIMIT ?
"""
_EDGES = """
SELECT s.name AS source, t.{node} AS target, count(DISTINCT t.url) AS links
FROM attempts t
JOIN (SELECT DISTINCT crawl, trace, {node} AS name FROM attempts) s
  ON s.crawl = t.crawl AND s.trace = t.found_on
WHERE s.name <> t.{node}
GROUP BY ALL
ORDER BY links DESC, source, target
"""


class GraphLevel(StrEnum):
    """What a node of the graph is."""

    HOST = "host"
    PAGE = "page"


class LinkNode(msgspec.Struct, frozen=True):
    name: str  # a host, or a URL
    pages: int
    failures: int  # attempts
    incoming: int  # links from other nodes of the crawl


class LinkEdge(msgspec.Struct, frozen=True):
    source: str
    target: str
    links: int


class LinkGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The largest nodes, and every edge between two of them; both largest first."""

    by: GraphLevel
    total: int  # nodes that the log has
    nodes: list[LinkNode]
    edges: list[LinkEdge]


async def read_link_graph(dsn: str, crawl: str | None, *, by: GraphLevel, limit: int) -> LinkGraph:
    """Return the link graph of a crawl, or of all crawls of a store; raise if there are no attempts."""
    async with open_log(dsn, crawl) as log:
        graph = await asyncio.to_thread(link_graph, log, by, limit)
    if not graph.nodes:
        raise Misconfigured("the fetch log has no attempts to draw a graph from")
    return graph


def link_graph(log: LogDatabase, by: GraphLevel, limit: int) -> LinkGraph:
    """Return the `limit` largest nodes and the edges between them."""
    node = {GraphLevel.HOST: "host", GraphLevel.PAGE: "url"}[by]
    find_edges = _EDGES.format(node=node)
    rows = log.query(_NODES.format(node=node, edges=find_edges), [limit]).rows
    chosen = {row[0] for row in rows}
    return LinkGraph(
        by=by,
        total=rows[0][4] if rows else 0,
        nodes=[LinkNode(str(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in rows],
        edges=[
            LinkEdge(str(source), str(target), int(links))
            for source, target, links in log.query(find_edges).rows
            if source in chosen and target in chosen
        ],
    )


def writer_for(path: Path) -> Callable[[LinkGraph], Iterator[str]]:
    """Return what writes the format that the ending of a file names; raise `Misconfigured` for others."""
    formats = {".dot": dot_lines, ".graphml": graphml_lines, ".json": json_lines}
    if path.suffix.lower() not in formats:
        raise Misconfigured(f"--out {path}: must end in {', '.join(formats)}")
    return formats[path.suffix.lower()]


def write_link_graph(graph: LinkGraph, path: Path) -> None:
    """Write a graph in the format that the ending of the file names. A file of that name is replaced."""
    writer = writer_for(path)
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.write_text("".join(f"{line}\n" for line in writer(graph)), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise Misconfigured(f"--out {path}: {error.strerror}") from None


def dot_lines(graph: LinkGraph) -> Iterator[str]:
    """Yield a graph for Graphviz: size by pages, width by links, red where most attempts fail."""
    most = max((node.pages for node in graph.nodes), default=1) or 1
    heaviest = max((edge.links for edge in graph.edges), default=1)
    yield "digraph links {"
    yield '  graph [overlap=false, splines=true]; node [shape=ellipse, fontname="sans-serif"];'
    for node in graph.nodes:
        color = ', color="firebrick"' if node.failures > node.pages else ""
        size = 10 + 14 * (node.pages / most) ** 0.5
        label = f'{_dot(node.name)[:-1]}\\n{node.pages} pages"'
        yield f"  {_dot(node.name)} [label={label}, fontsize={size:.0f}{color}];"
    for edge in graph.edges:
        width = 0.5 + 4 * (edge.links / heaviest) ** 0.5
        yield f'  {_dot(edge.source)} -> {_dot(edge.target)} [label="{edge.links}", penwidth={width:.1f}];'
    yield "}"


def graphml_lines(graph: LinkGraph) -> Iterator[str]:
    """Yield a graph as GraphML, which Gephi, yEd, igraph and NetworkX read."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    yield '  <key id="label" for="node" attr.name="label" attr.type="string"/>'
    for name in ("pages", "failures", "incoming"):
        yield f'  <key id="{name}" for="node" attr.name="{name}" attr.type="long"/>'
    yield '  <key id="weight" for="edge" attr.name="weight" attr.type="long"/>'
    yield '  <graph id="links" edgedefault="directed">'
    for node in graph.nodes:
        name = printable(node.name)
        yield (
            f'    <node id={quoteattr(name)}><data key="label">{escape(name)}</data>'
            f'<data key="pages">{node.pages}</data><data key="failures">{node.failures}</data>'
            f'<data key="incoming">{node.incoming}</data></node>'
        )
    for edge in graph.edges:
        source, target = quoteattr(printable(edge.source)), quoteattr(printable(edge.target))
        yield f'    <edge source={source} target={target}><data key="weight">{edge.links}</data></edge>'
    yield "  </graph>"
    yield "</graphml>"


def json_lines(graph: LinkGraph) -> Iterator[str]:
    """Yield a graph as one JSON object."""
    yield msgspec.json.format(msgspec.json.encode(graph), indent=1).decode()


def _dot(name: str) -> str:
    text = printable(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
