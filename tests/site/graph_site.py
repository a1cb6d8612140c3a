"""The pages of a `Graph`, as its server answers them: HTML, robots.txt, redirects, 404s and busy hosts."""

from html import escape

import msgspec
from tests.site.graph import Graph, Kind, Node, Shape
from tests.site.server import Answer, Site

FILLER = "Herring keep a distance of about one body length and turn as one when the light changes. "


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site that `spec` (a shape as JSON) describes; the server process calls this."""
    return GraphSite(Graph(msgspec.json.decode(spec, type=Shape), authorities))


class GraphSite:
    """A graph being served. Its only state is which hosts are busy."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._shape = graph.shape
        hosts = graph.shape.hosts
        self._by_path: list[dict[str, int]] = [{} for _ in range(hosts)]
        for number, node in enumerate(graph.nodes):
            self._by_path[node.host][node.path] = number
        self._good_answers = [0] * hosts  # since the host's last busy episode
        self._episodes = [0] * hosts
        self._busy_until = [0.0] * hosts

    def answer(self, host: int, path: str, now: float) -> Answer:
        """Answer one request; `now` only matters to hosts that are busy."""
        if path == "/robots.txt":
            return Answer(200, self._robots(host), content_type="text/plain")
        if wait_s := self._busy_for(host, now):
            return Answer(429, b"slow down", headers=(("Retry-After", str(wait_s)),))
        delay = self._shape.latency_s.get(host, 0.0)
        number = self._by_path[host].get(path)
        if number is None:
            return Answer(404, b"no such page", delay=delay)
        node = self._graph.nodes[number]
        match node.kind:
            case Kind.GONE:
                return Answer(404, b"gone", delay=delay)
            case Kind.REDIRECT:
                target = self._graph.url(self._graph.nodes[node.links[0][0]])
                return Answer(node.status, b"", headers=(("Location", target),), delay=delay)
            case Kind.DISALLOWED | Kind.UNFOLLOWED:
                return Answer(200, b"a polite crawler never reads this", delay=delay)
            case Kind.PAGE:
                headers = (("X-Robots-Tag", "nofollow"),) if node.nofollow == "header" else ()
                return Answer(200, self._html(number, node), headers=headers, delay=delay)

    def _busy_for(self, host: int, now: float) -> int:
        """Return the seconds that the host asks clients to wait; 0 when it is not busy."""
        busy = self._shape.busy.get(host)
        if busy is None:
            return 0
        if now < self._busy_until[host]:
            return busy.retry_after_s
        if self._episodes[host] < busy.times and self._good_answers[host] >= busy.after:
            self._episodes[host] += 1
            self._good_answers[host] = 0
            self._busy_until[host] = now + busy.retry_after_s
            return busy.retry_after_s
        self._good_answers[host] += 1
        return 0

    def _robots(self, host: int) -> bytes:
        lines = ["User-agent: *", "Disallow: /private/"]
        if delay := self._shape.crawl_delay_s.get(host):
            lines.append(f"Crawl-delay: {delay}")
        return ("\n".join(lines) + "\n").encode()

    def _html(self, number: int, node: Node) -> bytes:
        meta = '<meta name="robots" content="noarchive, nofollow">' if node.nofollow == "meta" else ""
        articles = "".join(
            f'<article id="{item["offer"]}"><h2>{escape(item["title"])}</h2>'
            f'<p class="price">{item["price"]}</p></article>'
            for item in self._graph.items(number)
        )
        anchors = "".join(self._anchor(node, target, spelling) for target, spelling in node.links)
        html = (
            f"<!doctype html><html><head><meta charset=utf-8><title>Page {number}</title>{meta}</head>"
            f"<body>{articles}<ul>{anchors}</ul>"
        )
        padding = max(0, self._shape.body_bytes - len(html)) // len(FILLER)
        return f"{html}<footer>{FILLER * padding}</footer></body></html>".encode()

    def _anchor(self, page: Node, number: int, spelling: int) -> str:
        target = self._graph.nodes[number]
        href = escape(_spell(self._graph.url(target), spelling, same_host=page.host == target.host))
        hidden = target.kind is Kind.UNFOLLOWED and not page.nofollow
        rel = ' rel="noopener nofollow"' if hidden else ""
        return f'<li><a href="{href}"{rel}>to {number}</a></li>'


def _spell(url: str, spelling: int, *, same_host: bool) -> str:
    """Write a link in one of several ways that all mean the same URL."""
    scheme, _, authority, path = url.split("/", 3)
    match spelling:
        case 1:
            return f"{url}#part-two"
        case 2:
            return f"/{path}" if same_host else f"//{authority}/{path}"
        case 3:
            return f"//{authority}/{path}"
        case 4:
            return f"{scheme}//{authority}/./up/../{path}"
        case 5:
            return f"  {url}\n"
        case 6:
            return f"{scheme.upper()}//{authority}/{path}"
        case 7:
            return f"/{path}#" if same_host else f"{url}#"
        case _:
            return url
