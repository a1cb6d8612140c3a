"""The metadata of a page: JSON-LD, Open Graph, Twitter cards, microdata, and a summary of all of them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from shoal.model.limits import KIB
from shoal.model.url import resolver
from shoal.spider.html.canonical import canonical_link
from shoal.spider.html.links import base_url
from shoal.spider.metadata.json_ld import iter_objects, read_json_ld
from shoal.spider.metadata.microdata import MicrodataItem, read_microdata
from shoal.spider.text.dates import parse_date

_MAX_METAS = 1000
_MAX_SCRIPTS = 200
_MAX_CONTENT_CHARS = 64 * KIB  # of one `<meta>`

_OPEN_GRAPH = ("og:", "article:", "book:", "profile:", "product:", "video:", "music:", "fb:")
_DESCRIPTION = ("description", "og:description", "twitter:description", "dc.description")
_PUBLISHED = (
    *("article:published_time", "og:published_time", "datepublished", "date", "dc.date", "dc.date.issued"),
    *("dcterms.created", "dcterms.date", "pubdate", "publishdate", "publish-date", "publication_date"),
    *("parsely-pub-date", "sailthru.date", "citation_publication_date"),
)
_MODIFIED = (
    *("article:modified_time", "og:updated_time", "datemodified", "last-modified", "dcterms.modified"),
    *("dc.date.modified", "revised"),
)

_code = re.compile(r"[a-zA-Z]{2,3}(?:[-_][a-zA-Z0-9]{2,8})*+")


@dataclass(frozen=True, slots=True)
class Metadata:
    title: str
    description: str
    canonical: str  # the canonical URL that the page declares; may be empty
    language: str  # such as `en-GB`; may be empty
    published: datetime | None
    modified: datetime | None
    open_graph: dict[str, str]  # the first value of a repeated property, as the protocol demands
    twitter: dict[str, str]
    json_ld: list[dict[str, Any]]
    microdata: list[MicrodataItem]
    broken: int = 0  # JSON-LD scripts that could not be read


def read_metadata(tree: LexborHTMLParser, url: str) -> Metadata:
    """Return the metadata of the page at `url`."""
    resolve = resolver(base_url(tree, url))
    metas = _metas(tree)
    json_ld, broken = read_json_ld(_json_ld_scripts(tree))
    microdata = read_microdata(tree, resolve)
    objects = [*iter_objects(json_ld), *(_first_values(item) for item in microdata)]
    return Metadata(
        title=_text(_named(metas, "og:title", "twitter:title"), _titles(tree), _values(objects, "headline")),
        description=_text(_named(metas, *_DESCRIPTION), _values(objects, "description")),
        canonical=canonical_link(tree, resolve) or "",
        language=_language(chain(_languages(tree, metas), _values(objects, "inLanguage"))),
        published=_date(chain(_values(objects, "datePublished"), _named(metas, *_PUBLISHED))),
        modified=_date(chain(_values(objects, "dateModified"), _named(metas, *_MODIFIED))),
        open_graph={name: value for name, value in metas.items() if name.startswith(_OPEN_GRAPH)},
        twitter={name: value for name, value in metas.items() if name.startswith("twitter:")},
        json_ld=json_ld,
        microdata=microdata,
        broken=broken,
    )


def _metas(tree: LexborHTMLParser) -> dict[str, str]:
    """Return the content of each `<meta>` by its property, name, itemprop or http-equiv; the first wins."""
    found: dict[str, str] = {}
    for node in tree.tags("meta")[:_MAX_METAS]:
        has = node.attributes
        name = has.get("property") or has.get("name") or has.get("itemprop") or has.get("http-equiv") or ""
        content = (has.get("content") or "")[:_MAX_CONTENT_CHARS].strip()
        if name and content:
            found.setdefault(name.strip().lower(), content)
    return found


def _json_ld_scripts(tree: LexborHTMLParser) -> Iterator[str]:
    for node in tree.tags("script")[:_MAX_SCRIPTS]:
        if (node.attributes.get("type") or "").strip().lower().startswith("application/ld+json"):
            yield node.text()


def _titles(tree: LexborHTMLParser) -> Iterator[str]:
    return (node.text()[:_MAX_CONTENT_CHARS] for node in tree.tags("title")[:1])


def _languages(tree: LexborHTMLParser, metas: dict[str, str]) -> Iterator[str]:
    for node in tree.tags("html"):
        yield node.attributes.get("lang") or node.attributes.get("xml:lang") or ""
    yield from _named(metas, "content-language", "og:locale", "dc.language", "language")


def _language(found: Iterable[str]) -> str:
    return next((text.strip().replace("_", "-") for text in found if _code.fullmatch(text.strip())), "")


def _named(metas: dict[str, str], *names: str) -> Iterator[str]:
    return (metas[name] for name in names if name in metas)


def _values(objects: Iterable[dict[str, Any]], name: str) -> Iterator[str]:
    """Yield the strings that the objects have for `name`; of a list its first member."""
    for one in objects:
        value = one.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str):
            yield value


def _first_values(item: MicrodataItem) -> dict[str, Any]:
    return {name: values[0] for name, values in item["properties"].items()}


def _text(*found: Iterable[str]) -> str:
    return next(filter(None, (" ".join(text.split()) for text in chain(*found))), "")


def _date(found: Iterable[str]) -> datetime | None:
    return next(filter(None, map(parse_date, found)), None)
