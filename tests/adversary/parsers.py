"""The parsers of outside text, to be fuzzed.

A parser is added with one row. `test_parsers.py` checks that every module that reads outside text has a row, or a reason in `NO_PARSER`.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from tests.fuzzing import KIB, Parser

from shoal.fetch.challenge import find_block
from shoal.fetch.http.guard import Guard
from shoal.fetch.http_date import http_date
from shoal.fetch.interpret import Conditional, RedirectRules, interpret, parse_retry_after
from shoal.model.errors import Bomb, Rejected
from shoal.model.failure import FailureClass
from shoal.model.page import ParseTask, Response
from shoal.model.request import Link, Request
from shoal.model.scope import Scope
from shoal.model.traps.page_evidence import page_evidence
from shoal.model.traps.simhash import simhash
from shoal.model.traps.url_pattern import pattern_of
from shoal.model.url import canonical, host_key, join, origin_of
from shoal.sinks.csv_safety import escape_formulas
from shoal.spider.feeds.feed import read_feed
from shoal.spider.feeds.sitemap import Sitemap
from shoal.spider.html.link_priority import link_priority
from shoal.spider.page import Page
from shoal.spider.run import run as run_spider
from shoal.spider.spider import SITEMAP, Spider
from shoal.spider.text.content_type import detect_kind
from shoal.spider.text.dates import parse_date
from shoal.spider.text.decoding import decode

# The modules that read outside text: each has a row in PARSERS whose `parse` runs it, or a line in NO_PARSER.
READERS = (
    *(
        "spider/feeds",
        "spider/html",
        "spider/metadata",
        "spider/text",
        "spider/feed_handler",
        "spider/page",
        "spider/items",
    ),
    *("model/url", "model/scope", "model/traps"),
    *("fetch/http_date", "fetch/interpret", "fetch/challenge", "sinks/csv_safety"),
)
# They take what another parser has read.
NO_PARSER = {
    "spider/html/css": "it reads queries, which are the spider's own",
    "spider/html/seen_links": "a set of URLs that are canonical already",
}

URL = "https://page.example/a/b.html?c=d"
HTML = "text/html; charset=utf-8"


def parsed_page(body: bytes) -> Page:
    """Return a page whose markup is parsed already.

    Lexbor builds the tree that the HTML standard asks for, which is not linear for all markup. The limits of the parse
    child bound that (`tests/hostile`, P01); here only the code that reads the tree is timed.
    """
    one = page(body)
    _ = one.root, one.text
    return one


def page(body: bytes, content_type: str = HTML, *headers: tuple[str, str]) -> Page:
    return Page(_task(body, (("content-type", content_type), *headers)))


def _task(body: bytes, headers: tuple[tuple[str, str], ...], route: str = "") -> ParseTask:
    return ParseTask(1, 64, Request(url=URL, route=route), URL, 200, headers, body, 0.0)


def _header(data: bytes) -> str:
    """Return what a header line can hold: latin-1 without line breaks."""
    return data.decode("latin-1").replace("\r", " ").replace("\n", " ")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# --- what each parser does -------------------------------------------------------------------------


def _links(one: Page) -> None:
    for url in one.links().urls:
        assert url.startswith(("http://", "https://"))
        url.encode()
    _ = one.nofollow, one.canonical, len(one.links("li, div")), one.follow(one.css("a"))


def _pages_in_a_spider(data: bytes) -> None:
    """Run a handler as a parse child does, and encode its result."""
    for content_type in (HTML, "", "application/xml", "application/json", "text/plain; charset=shift_jis"):
        result = run_spider(_SPIDER, _task(data, (("content-type", content_type),)), scope=Scope(hosts=None))
        fault = result.fault
        assert fault is None or fault.failure_class is FailureClass.BOMB, fault
        msgspec.msgpack.encode(result)


_SPIDER = Spider("fuzz", start=[URL])


@_SPIDER.page()
def _everything(one: Page) -> Iterator[Any]:
    yield {
        "title": one.css("title::text").get(),
        "text": one.css("body ::text").getall()[:10],
        "url": one.url,
    }
    yield one.links()


def _selectors(one: Page) -> None:
    # Lexbor takes quadratic time for `~` and `:nth-child` among siblings. The spider chooses the query.
    for query in (
        "a",
        "p ::text",
        "div > p a::attr(href)",
        "a:contains('x')",
        "*::text",
        "[id]",
    ):
        one.css(query).getall()
    for element in one.css("div")[:3]:
        element.css("a ::text").getall()
        element.xpath(".//a/@href").getall()
    one.xpath("//a/@href | //text()").getall()
    _ = one.root.text, one.html


def _xml_selectors(data: bytes) -> None:
    one = page(data, "application/xml")
    one.xpath("//item/link/text()").getall()
    one.css("link")
    _ = one.root.text, one.root.attrib, one.root.get()
    remove = getattr(one.root, "remove_namespaces", None)
    if remove:
        remove()


def _json(data: bytes) -> None:
    page(data, "application/json").json()


def _metadata(one: Page) -> None:
    found = one.metadata()
    msgspec.json.encode((found.json_ld, found.microdata, found.open_graph))


def _article(data: bytes) -> None:
    page(data).article()
    page(data).markdown()


def _forms(one: Page) -> None:
    """Send every form of the page as it is, and with a field of its name."""
    for element in one.css("form")[:5]:
        with suppress(ValueError):  # an action that is not a URL, or an upload
            request = one.form(f'form[name="{element.attrib.get("name", "")}"]').fill()
            request.url.encode(), bytes(request.body)
    with suppress(ValueError):
        one.form().fill({"a": "\u00e9\u4e2d"})


def _whole_markdown(one: Page) -> None:
    one.markdown(whole=True).encode()


def _response_headers(data: bytes) -> None:
    value = _header(data)
    for name in ("link", "x-robots-tag", "content-type", "refresh", "location", "retry-after", "set-cookie"):
        one = page(b"<a href=x>y</a>", HTML, (name, value))
        _ = one.canonical, one.nofollow, one.links().urls
    _ = page(b"<p>\xe9</p>", value).text


def _interpret(data: bytes) -> None:
    value = _header(data)
    rules = RedirectRules(Guard())
    for status in (200, 301, 403, 503):
        headers = (("location", value), ("refresh", value), ("retry-after", value), ("server", value))
        response = Response(URL, status, headers, data, data, 0.0, 0.0)
        find_block(response)
        interpret(Request(url=URL), response, rules, conditional=Conditional.NO, now=0.0)
    parse_retry_after(value, 0.0)


def _url(data: bytes) -> None:
    text = _text(data)
    for found in (join(URL, text), canonical(text)):
        if found is not None:
            found.encode()
            _ = host_key(found), origin_of(found), canonical(found)
            if found.startswith(("http://", "https://")):
                assert canonical(found) == found
                _ = pattern_of(found), link_priority(found), Link.to(Request(url=found))
                Scope(hosts=frozenset()).refuse(found, 1), Scope(hosts=None).refuse(found, 1)


def _dates(data: bytes) -> None:
    parse_date(_text(data))
    http_date(_header(data))


def _decode(data: bytes) -> None:
    for content_type in (
        "",
        "text/html; charset=utf-8",
        "text/html; charset=gb18030",
        "text/plain; charset=iso-2022-jp",
        "text/html; charset=utf-16",
    ):
        decode(data, content_type).text.encode()
        detect_kind(data, content_type)


def _feed(data: bytes) -> None:
    feed = read_feed(data)
    for entry in feed.entries:
        entry.link.encode(), entry.title.encode()


def _sitemap(data: bytes) -> None:
    for entry in Sitemap(data):
        entry.loc.encode()


def _listing(data: bytes) -> None:
    task = _task(data, (("content-type", "application/xml"),), SITEMAP)
    msgspec.msgpack.encode(run_spider(_SPIDER, task, scope=Scope(hosts=None)))


def _csv(data: bytes) -> None:
    escape_formulas(data.decode("utf-8", "replace"))


def _visible_text(one: Page) -> None:
    simhash(one.text)
    one.simhash()
    page_evidence("https://a.test/p/1/2", one.body)


# --- samples and tokens -----------------------------------------------------------------------------


def _tokens(written: str) -> tuple[bytes, ...]:
    """Return tokens that are separated by two spaces; spaces and line breaks are added."""
    return (*written.encode("latin-1").split(b"  "), b" ", b"\n", b"\t")


_PAGE = b"""<!DOCTYPE html><html lang=en-GB><head><meta charset=utf-8><title>A &amp; B</title><base href="/base/">
<meta name=robots content="noindex, follow"><meta http-equiv=refresh content="5; url=/next">
<link rel=canonical href="/c"><meta property="og:title" content="T"><meta name=date content="2024-05-06">
<link rel="next" href="?page=2"></head><body><div itemscope itemtype="https://schema.org/Book" itemref="x">
<span itemprop="name">N</span><div itemprop=author itemscope><a itemprop=url href="/x y">Z</a></div></div>
<p id=x itemprop=isbn>1<script type="application/ld+json">{"@type": "A", "@graph":
[{"datePublished": "2024-05-06T07:08:09Z", "n": 1e3,}]}</script><ul><li><a href="../q?a=1&b=2#f" rel="nofollow">t
</a></li></ul><table><tr><td>1<td>2</table><article><h1>Head</h1><p>Some text, long enough to be an article. It has
a few sentences.</p></article><!-- c --><style>p{}</style></body></html>"""
_HTML_TOKENS = _tokens(
    '<  >  &  <a href=x>  </a>  <div>  </div>  <p>  <b>  </b>  <table>  <td>  <!--  -->  <a   a="  <script>  </script>  '
    "<title>  <svg>  <select>  <option>  <template>  <form>  <font>  &#x41;  &amp  &#xD800;  &#9999999999;  \xc3\xa9  \0  "
    "<a href='?x=1&y=2'>  <li>  <frameset>  <link rel=canonical href=y>  <base href=z>  <a href=../../>  <a href='a:b'>  "
    "<meta name=robots content='a,b'>  <meta http-equiv=refresh content='1;url=x'>  <meta http-equiv=refresh content='1 "
)
_METADATA_TOKENS = _tokens(
    "<div itemscope>  <div itemscope itemprop=a>  </div>  <p itemprop='a b c'>  <p id=x itemprop=a>t  "
    "<div itemscope itemref='x y'>  <meta property=og:title content=x>  <meta name=date content=2024>  "
    "<script type=application/ld+json>  </script>  <script type=application/ld+json>{}</script>  <title>  "
    "<a itemprop=u href=x>  <div itemprop=a>  ;  [  {  ,\"  <meta content='"
)
_FORM = (
    b"""<form name=f action="/go?x=1" method=post enctype="multipart/form-data" accept-charset="gb18030 utf-8">
<input name=a value=1><input type=checkbox name=b checked><select name=c multiple><option selected>x<option value=y>z
</select><textarea name=d>\r\nt</textarea><input type=hidden name=_charset_><button name=e formaction=/other>go</form>""",
    b"<form name=g><input name=a type=radio value=1><input name=a type=radio checked><input type=image name=i></form>",
)
_FORM_TOKENS = _tokens(
    "<form name=f>  </form>  <input name=a value='  <input name=a>  type=file  type=radio  <select name=c>  <option>  "
    "</select>  <textarea name=d>  <button>  formaction=//x  accept-charset=x  enctype=text/plain  method=post  form=f  "
    "<fieldset disabled>  <legend>  <table>  <label>  <datalist>  disabled  \xc3\xa9  \0"
)
_JSON = (
    b'{"a": [1, 2.5e3, "x\\u00e9", null, true], "b": {"c": []}}',
    b"[]",
    b'// <![CDATA[\n{"a": 1,}\n// ]]>;',
)
_JSON_TOKENS = _tokens(
    '[  ]  {  }  "  \\  ,  :  1  e9  -  {"a":  "a":1,  [1,  \\ud800  null  //  /*  */  ;  <!--  -->  ]]>  <![CDATA[  "\\  .'
)
_FEED = (
    b"""<?xml version="1.0"?><!DOCTYPE rss [<!ELEMENT a (b)>]><rss version="2.0"><channel><title>T</title>
<link>https://a.example/</link><item><title><![CDATA[A & B]]></title><link>https://a.example/1?a=1&amp;b=2</link>
<guid isPermaLink="false">1</guid><pubDate>Mon, 06 May 2024 07:08:09 +0200</pubDate></item></channel></rss>""",
    b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><link rel="alternate" type="text/html"
href="/1"/><id>urn:1</id><updated>2024-05-06T07:08:09Z</updated></entry></feed>""",
)
_SITEMAP = (
    b"""<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url>
<loc>https://a.example/?a=1&amp;b=2</loc><lastmod>2024-05-06</lastmod></url></urlset>""",
    b"<sitemapindex><sitemap><loc>https://a.example/s.xml.gz</loc></sitemap></sitemapindex>",
    b"https://a.example/\nhttps://a.example/2\r\n",
    *_FEED,
)
_XML_TOKENS = _tokens(
    "<  >  </  />  &  &amp;  &#xD800;  &#55296;  <!--  -->  <![CDATA[  ]]>  <?  ?>  <!  <!x  <!DOCTYPE a [  ]>  <!ENTITY a 'b'>  "
    "<!ENTITY % a 'b'>  <item>  </item>  <url><loc>  </loc></url>  <a>  </a>  <a b='  \"  '   a=  <item><link>x</link></item>  "
    "<link href='x'/>  <rss>  <urlset>  x  x:  <entry><title>  <a:b c:d='e'>  \xef\xbf\xbf  \x01  <rss><item><link>  \r"
)
_HEADERS = (
    b'</c>; rel="canonical"; title="x", <https://a.example/>; rel=next',
    b"shoal: nofollow, max-snippet: 5",
    b'text/html; charset="iso-8859-1"; q=1',
    b"5; url='/next'",
    b"Mon, 06 May 2024 07:08:09 GMT",
    b"120",
)
_HEADER_TOKENS = _tokens(
    '<  >  <x>  ;  ,  :  =  "  \'  rel  rel=""  ; rel=  rel=canonical  url=  charset=  nofollow  shoal:  5;  0  9  .  5   %  \xff  '
    '//  /../  \\  charset="  charset   ; rel   a;  <x>; rel=""  <x>;rel=canonical,'
)
_URLS = (
    b"https://user:pw@a.example:8080/x/../y/%41?b=1&a=2&utm_source=q#f",
    b"/page/12/?start=10",
    b"../../x.html",
    b"//b.example/x",
    "https://bücher.example/ü?ß".encode(),
    b"http://[::1]:80/",
    b"mailto:a@b",
    b"javascript:alert(1)",
)
_URL_TOKENS = _tokens(
    "/  ../  ./  ..  //  ?  &  =  #  %  %41  %2e  :  @  .  a  1  A  \xc3\xbc  http:  https://  [  ]  xn--  xn--a.  a.  1.  0x  \\  ;  "
    "a=1&  &page=  /page/  utm_a&  \xff  a-  http://a/"
)
_DATES = (
    *(
        b"2024-05-06T07:08:09+02:00",
        b"Mon, 06 May 2024 07:08:09 GMT",
        b"2024",
        b"2024-05",
        b"20240506T070809Z",
    ),
    b"06 May 24 07:08 EST",
)
_DATE_TOKENS = _tokens("0  9  -  +  :  ,  T  Z  May  Mon,  GMT  UTC  (  )  .  99999  \xd9\xa1  W  /  2024-")
_BYTES = (
    _PAGE,
    "<meta charset=gb2312><p>中文網頁</p>".encode("gb18030"),
    "\ufeffä".encode("utf-16"),
    b'<?xml version="1.0" encoding="koi8-r"?><a>\xc1\xc2</a>',
    "<p>日本語</p>".encode("iso-2022-jp"),
)
_BYTE_TOKENS = _tokens(
    "\x1b$B  \x1b(B  \xff  \x80  \xc3  \xed\xa0\x80  \xf0\x9f  \x00<  <\x00  \xd8\x00  \x810\x810  \x8e\xa2  <meta   charset=  "
    '<!--  <?xml   encoding="  a  <  =  "  \'  >  <meta charset=x>  \xe4  \xa1\xa1'
)
_CELLS = (b"=1+2", b"a;=1", b"x\n\t@y", "\u3000＝x".encode())
_CELL_TOKENS = _tokens(
    "=  +  -  @  ;  ,  |  \"  '  a  \xc2\xa0  \xef\xbc\x9d  \xe2\x80\x8b  \xef\xbc\x9b  \0  \r"
)


def _script(data: bytes) -> Page:
    return parsed_page(b"<script type=application/ld+json>" + data)


PARSERS: tuple[Parser, ...] = (
    Parser(
        "links", _links, (_PAGE,), _HTML_TOKENS, prepare=parsed_page, memory_factor=400, seconds_per_mib=10
    ),
    Parser(
        "selectors",
        _selectors,
        (_PAGE,),
        _HTML_TOKENS,
        prepare=parsed_page,
        memory_factor=1000,
        seconds_per_mib=10,
    ),
    Parser("visible text", _visible_text, (_PAGE,), _HTML_TOKENS, prepare=parsed_page, memory_factor=400),
    Parser("metadata", _metadata, (_PAGE,), _METADATA_TOKENS, prepare=parsed_page, memory_factor=400),
    Parser("forms", _forms, _FORM, _FORM_TOKENS, prepare=parsed_page, memory_factor=400, seconds_per_mib=10),
    Parser(
        "whole pages as Markdown",
        _whole_markdown,
        (_PAGE,),
        _HTML_TOKENS,
        prepare=parsed_page,
        memory_factor=400,
    ),
    Parser("JSON-LD", _metadata, _JSON, _JSON_TOKENS, prepare=_script),
    Parser("articles", _article, (_PAGE,), _HTML_TOKENS, max_bytes=8 * KIB, memory_factor=2000),
    Parser("selectors on XML", _xml_selectors, (*_FEED, *_SITEMAP), _XML_TOKENS, (Bomb,), memory_factor=400),
    Parser("pages in a spider", _pages_in_a_spider, (_PAGE, *_FEED, *_JSON), _HTML_TOKENS, max_bytes=2 * KIB),
    Parser("page.json", _json, _JSON, _JSON_TOKENS, (msgspec.DecodeError, RecursionError)),
    Parser("feeds", _feed, _FEED, _XML_TOKENS),
    Parser("sitemaps", _sitemap, _SITEMAP, _XML_TOKENS),
    Parser("sitemaps in a spider", _listing, _SITEMAP, _XML_TOKENS),
    Parser("response headers", _response_headers, _HEADERS, _HEADER_TOKENS, max_bytes=64 * KIB),
    Parser("responses", _interpret, _HEADERS, _HEADER_TOKENS, max_bytes=64 * KIB),
    Parser("URLs", _url, _URLS, _URL_TOKENS, (Rejected,)),
    Parser("dates", _dates, _DATES, _DATE_TOKENS),
    Parser("encodings and kinds", _decode, _BYTES, _BYTE_TOKENS),
    Parser("CSV cells", _csv, _CELLS, _CELL_TOKENS),
)
