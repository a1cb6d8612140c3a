"""A whole page as Markdown (CommonMark, and tables as on GitHub): everything that a reader would see.

Links are absolute. What cannot be written in Markdown loses its form and keeps its text. Elements that are
nested more than `MAX_DEPTH` deep are written as plain text.
"""

import re
from collections.abc import Callable, Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_DEPTH = 100

Resolve = Callable[[str], str | None]

_SKIPPED = frozenset(
    (
        *(
            "head",
            "script",
            "style",
            "template",
            "noscript",
            "svg",
            "math",
            "iframe",
            "object",
        ),
        *(
            "canvas",
            "audio",
            "video",
            "select",
            "datalist",
        ),
    )
)
_BLOCKS = frozenset(
    (
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "center",
            "details",
            "dd",
            "div",
        ),
        *(
            "dl",
            "dt",
            "fieldset",
            "figcaption",
            "figure",
            "footer",
            "form",
            "h1",
            "h2",
            "h3",
        ),
        *(
            "h4",
            "h5",
            "h6",
            "header",
            "hgroup",
            "hr",
            "html",
            "legend",
            "li",
            "main",
            "menu",
        ),
        *(
            "nav",
            "ol",
            "p",
            "pre",
            "search",
            "section",
            "summary",
            "table",
            "tbody",
            "tfoot",
        ),
        *(
            "thead",
            "tr",
            "td",
            "th",
            "caption",
            "ul",
        ),
    )
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = frozenset({"code", "kbd", "samp", "tt", "var"})
_SPECIAL = re.compile(r"[\\`*\[\]<]|(?<!\w)_|_(?!\w)")
_LINE_START = re.compile(r"(?m)^(\s*)(#{1,6}(?=\s)|[-+](?=\s)|>|\d+(?=[.)]\s)|~~~|=+$|-+$)")
_SPACE = re.compile(r"[ \t\n\r\f]+")
_LANGUAGE = re.compile(r"(?:language|lang|highlight|brush)[-:]\s?([\w+#-]+)")
_BREAK = "\0"  # a line break inside a paragraph, until the paragraph is complete


def whole_page_markdown(tree: LexborHTMLParser, resolve: Resolve) -> str:
    """Return everything in the body of a page; `resolve` makes links absolute."""
    if tree.body is None:
        return ""
    blocks = _Writer(resolve).blocks(tree.body, 0)
    return "\n\n".join(blocks) + "\n" if blocks else ""


class _Writer:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def blocks(self, node: LexborNode, depth: int) -> list[str]:
        """Return the paragraphs, lists, tables... inside an element."""
        found: list[str] = []
        line: list[str] = []

        def end_line() -> None:
            if text := _paragraph("".join(line)):
                found.append(text)
            line.clear()

        for child in _children(node):
            if _is_hidden(child):
                continue
            if child.tag in _BLOCKS or _contains_block(child, depth):
                end_line()
                found += self._block(child, depth + 1)
            else:
                line.append(self._inline(child, depth + 1))
        end_line()
        return found

    def _block(self, node: LexborNode, depth: int) -> list[str]:
        tag = node.tag or ""
        if depth > MAX_DEPTH:
            return [text] if (text := _paragraph(_escape(node.text()))) else []
        if tag in _HEADINGS:
            text = self._one_line(node, depth)
            return [f"{_HEADINGS[tag]} {text}"] if text else []
        match tag:
            case "hr":
                return ["---"]
            case "pre":
                return [_fenced(node)]
            case "ul" | "ol" | "menu":
                return self._list(node, depth)
            case "blockquote":
                return ["\n".join(f"> {line}".rstrip() for line in _lines(self.blocks(node, depth)))]
            case "table":
                return self._table(node, depth)
            case "dt":
                text = self._one_line(node, depth)
                return [f"**{text}**"] if text else []
        return self.blocks(node, depth)

    def _list(self, node: LexborNode, depth: int) -> list[str]:
        entries = []
        start = (node.attributes.get("start") or "") if node.tag == "ol" else ""
        number = int(start) if start.isdecimal() and len(start) < 9 else 1
        for child in _children(node):
            if _is_hidden(child):
                continue
            blocks = self.blocks(child, depth + 1) if child.tag == "li" else self._block(child, depth + 1)
            if not blocks or child.tag == "-text":
                continue
            mark = f"{number}. " if node.tag == "ol" else "- "
            number += 1
            first, *rest = _lines(blocks, tight=True)
            indent = " " * len(mark)
            entries.append("\n".join([mark + first, *(f"{indent}{line}".rstrip() for line in rest)]))
        return ["\n".join(entries)] if entries else []

    def _table(self, node: LexborNode, depth: int) -> list[str]:
        rows = [row for row in _rows(node) if row]
        if not rows or max(map(len, rows)) < 2 or _find(node, "table, ul, ol, pre, h1, h2, h3"):
            return self.blocks(node, depth)  # for layout
        written = [[self._one_line(cell, depth).replace("|", "\\|") for cell in row] for row in rows]
        width = max(map(len, written))
        lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in written]
        caption = _find(node, "caption")
        title = [self._one_line(caption[0], depth)] if caption else []
        return [*(one for one in title if one), "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])]

    def _one_line(self, node: LexborNode, depth: int) -> str:
        """Return an element as text on one line, with its links and emphasis."""
        texts = [self._inline(child, depth + 1) for child in _children(node) if not _is_hidden(child)]
        return _SPACE.sub(" ", "".join(texts).replace(_BREAK, " ")).strip()

    def _inline(self, node: LexborNode, depth: int) -> str:
        tag = node.tag or ""
        if tag == "-text":
            return _escape(node.text_content or "")
        if tag.startswith(("-", "!", "_")):
            return ""  # comments and the like
        if depth > MAX_DEPTH:
            return _escape(node.text())
        if tag == "br":
            return _BREAK
        if tag == "img":
            return self._image(node)
        if tag in _CODE and not _find(node, "a, img"):
            return _code(node.text())
        texts = [self._inline(child, depth + 1) for child in _children(node) if not _is_hidden(child)]
        text = "".join(texts)
        if tag in _BLOCKS:
            return f" {text} "
        if tag == "a" and node.attributes.get("href"):
            return self._link(node.attributes["href"] or "", text)
        if tag in _MARKS:
            return _marked(text, _MARKS[tag])
        return text

    def _link(self, href: str, text: str) -> str:
        url = self._resolve(href.strip())
        label = _SPACE.sub(" ", text.replace(_BREAK, " "))
        if url is None or url.startswith(("javascript:", "data:")) or not label.strip():
            return label
        before, after = label[: len(label) - len(label.lstrip())], label[len(label.rstrip()) :]
        return f"{before}[{label.strip()}]({_address(url)}){after}"

    def _image(self, node: LexborNode) -> str:
        source = node.attributes.get("src") or ""
        url = None if source.startswith("data:") else self._resolve(source.strip())
        alternative = _escape(node.attributes.get("alt") or "").strip()
        return f"![{alternative}]({_address(url)})" if source and url else alternative


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next


def _is_hidden(node: LexborNode) -> bool:
    return node.tag in _SKIPPED or ("hidden" in node.attributes if (node.tag or "-")[0].isalpha() else False)


def _contains_block(node: LexborNode, depth: int) -> bool:
    """Return whether an inline element has a block directly inside it, as in `<a><h2>...</h2></a>`."""
    if not (node.tag or "-")[0].isalpha() or depth > MAX_DEPTH or node.tag in ("a", *_CODE):
        return False
    return any(child.tag in _BLOCKS for child in _children(node))


def _rows(table: LexborNode) -> Iterator[list[LexborNode]]:
    for part in _children(table):
        rows = _children(part) if part.tag in ("thead", "tbody", "tfoot") else [part]
        for row in rows:
            if row.tag == "tr":
                yield [cell for cell in _children(row) if cell.tag in ("td", "th")]


def _find(node: LexborNode, query: str) -> list[LexborNode]:
    return [one for one in node.css(query) if one.mem_id != node.mem_id]


def _lines(blocks: list[str], *, tight: bool = False) -> list[str]:
    """Return the lines of blocks; `tight`: a list follows its paragraph without an empty line."""
    lines: list[str] = []
    for block in blocks:
        if lines and not (tight and re.match(r"(?:-|\d+\.) ", block)):
            lines.append("")
        lines += block.split("\n")
    return lines or [""]


def _paragraph(text: str) -> str:
    lines = [_SPACE.sub(" ", line).strip() for line in text.split(_BREAK)]
    return "\\\n".join(_LINE_START.sub(r"\1\\\2", line) for line in lines if line)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text.replace(_BREAK, ""))


def _marked(text: str, mark: str) -> str:
    inner = text.strip()
    if not inner or _BREAK in inner:
        return text
    return text.replace(inner, f"{mark}{inner}{mark}", 1)


def _code(text: str) -> str:
    text = _SPACE.sub(" ", text)
    if not text.strip():
        return text
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _fenced(node: LexborNode) -> str:
    text = node.text().strip("\n")
    longest = max((len(run) for run in re.findall("(?m)^`{3,}", text)), default=2)
    around = [node, node.parent, *_find(node, "code")[:1]]
    classes = " ".join(one.attributes.get("class") or "" for one in around if one is not None)
    language = _LANGUAGE.search(classes)
    fence = "`" * (longest + 1)
    return f"{fence}{language[1] if language else ''}\n{text}\n{fence}"


def _address(url: str) -> str:
    return url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
