"""Copy a Lexbor tree to lxml, so that XPath on a CSS result sees the tree that CSS saw.

libxml2 repairs broken markup differently, so the elements of two parses cannot be matched to each other. A
copy costs about five times as much as a parse by libxml2; XPath on a whole page therefore parses again
instead.
"""

import re

from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*").fullmatch
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def copy_tree(tree: LexborHTMLParser) -> dict[int, etree._Element]:
    """Copy a tree, and return the copy of each element by the original's `mem_id`.

    XML allows less than HTML: other characters in an element's name become `_`, attributes with such names
    are left out, and characters that XML forbids become U+FFFD.
    """
    node = tree.root
    if node is None:
        return {}
    copy = etree.Element(_name(node.tag), _attributes(node))
    copies = {node.mem_id: copy}
    walk: list[tuple[LexborNode | None, etree._Element]] = [(node.first_child, copy)]
    while walk:
        child, parent = walk.pop()
        while child is not None:
            if child.is_text_node:
                _append_text(parent, _NOT_XML.sub("\ufffd", child.text_content or ""))
            elif child.is_comment_node:
                parent.append(
                    etree.Comment(_NOT_XML.sub("\ufffd", child.comment_content or "").replace("-", "‐"))
                )
            elif child.is_element_node:
                copy = etree.SubElement(parent, _name(child.tag), _attributes(child))
                copies[child.mem_id] = copy
                if child.first_child is not None:
                    # Descend into the new element first; the rest of this level is resumed afterwards.
                    walk.append((child.next, parent))
                    child, parent = child.first_child, copy
                    continue
            child = child.next
    return copies


def _append_text(parent: etree._Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _name(tag: str | None) -> str:
    tag = tag or "_"
    return tag if _NAME(tag) else "_" + re.sub(r"[^A-Za-z0-9_.-]", "_", tag)


def _attributes(node: LexborNode) -> dict[str, str]:
    return {
        name: _NOT_XML.sub("\ufffd", value or "") for name, value in node.attributes.items() if _NAME(name)
    }
