"""The link graph: every link that was followed, once, in formats that other programs read."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.unit.services.analysis.log_rows import NO_PAGE, database, row

from shoal.model.errors import Misconfigured
from shoal.services.analysis.link_graph import (
    GraphLevel,
    LinkEdge,
    LinkGraph,
    LinkNode,
    link_graph,
    write_link_graph,
)

FAILED = {**NO_PAGE, "status": 503, "outcome": "dead", "failure": "target_error"}
ROWS = [
    row(1, url="http://a.test/", found_on=0),
    row(2, url="http://b.test/", host="b.test", found_on=1),
    row(3, url="http://b.test/x", host="b.test", found_on=1),
    row(4, url="http://b.test/y", host="b.test", found_on=2),
    row(5, url="http://c.test/", host="c.test", found_on=4, **FAILED),
    row(6, url="http://a.test/z", found_on=3),
    # The next generation has other fingerprints, and the same URLs.
    row(11, url="http://a.test/", found_on=0),
    row(12, url="http://b.test/", host="b.test", found_on=11),
    # Another crawl of the store.
    row(2, url="http://d.test/", host="d.test", found_on=1, crawl="other"),
]
NAMES = ('<a href="x">&', '"; graph', "b\\\x1b[2J")


def test_hosts_and_the_links_between_them(tmp_path: Path) -> None:
    graph = link_graph(database(tmp_path, ROWS), GraphLevel.HOST, 10)
    assert graph.nodes == [
        LinkNode("b.test", 3, 0, 2),
        LinkNode("a.test", 2, 0, 1),
        LinkNode("c.test", 0, 1, 1),
        LinkNode("d.test", 1, 0, 0),
    ]
    assert graph.edges == [
        LinkEdge("a.test", "b.test", 2),
        LinkEdge("b.test", "a.test", 1),
        LinkEdge("b.test", "c.test", 1),
    ]


def test_only_the_largest_nodes_and_the_edges_between_them(tmp_path: Path) -> None:
    graph = link_graph(database(tmp_path, ROWS), GraphLevel.HOST, 2)
    assert (graph.total, [node.name for node in graph.nodes]) == (4, ["b.test", "a.test"])
    assert [(edge.source, edge.target) for edge in graph.edges] == [
        ("a.test", "b.test"),
        ("b.test", "a.test"),
    ]


def test_pages_and_the_links_between_them(tmp_path: Path) -> None:
    graph = link_graph(database(tmp_path, ROWS), GraphLevel.PAGE, 100)
    assert len(graph.nodes) == 7
    assert LinkEdge("http://b.test/y", "http://c.test/", 1) in graph.edges
    assert len(graph.edges) == 5


def test_an_empty_log_is_an_empty_graph(tmp_path: Path) -> None:
    assert link_graph(database(tmp_path, []), GraphLevel.HOST, 10).nodes == []


def test_every_format_keeps_names_that_look_like_its_own_syntax(tmp_path: Path) -> None:
    nodes = [LinkNode(name, 1, 0, 0) for name in NAMES]
    edges = [LinkEdge(NAMES[0], NAMES[1], 3)]
    graph = LinkGraph(by=GraphLevel.HOST, total=3, nodes=nodes, edges=edges)
    for ending in ("dot", "graphml", "json"):
        write_link_graph(graph, tmp_path / f"g.{ending}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.dot", "g.graphml", "g.json"]

    found = json.loads((tmp_path / "g.json").read_text())
    assert [node["name"] for node in found["nodes"]] == list(NAMES)
    xml = ElementTree.parse(tmp_path / "g.graphml").getroot()
    labels = [one.text for one in xml.iter() if one.get("key") == "label"]
    assert labels[:2] == list(NAMES[:2])
    assert len([one for one in xml.iter() if one.tag.endswith("}edge")]) == 1
    dot = (tmp_path / "g.dot").read_text()
    assert "\x1b" not in dot
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", dot)
    assert '"' not in outside
    assert outside.count("->") == 1


def test_an_ending_that_is_not_known_is_refused(tmp_path: Path) -> None:
    graph = LinkGraph(by=GraphLevel.HOST, total=0, nodes=[], edges=[])
    with pytest.raises(Misconfigured, match=r"must end in \.dot, \.graphml, \.json"):
        write_link_graph(graph, tmp_path / "g.png")
    with pytest.raises(Misconfigured, match="No such file"):
        write_link_graph(graph, tmp_path / "missing" / "g.dot")
