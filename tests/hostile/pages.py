"""Pages and spiders: markup that explodes, text in disguise, and handlers that do their worst."""

from tests.hostile.case import Case, Evidence, once, page, site

MIB = 1 << 20
XML = ("Content-Type", "application/xml")
JSON = ("Content-Type", "application/json")

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    + "]><l>&a9;</l>"
)
QUADRATIC = f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "{"x" * 50_000}">]><l>{"&a;" * 50_000}</l>'
EXTERNAL = {
    "file": '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/hostname">]><l>&x;</l>',
    "http": '<!DOCTYPE l [<!ENTITY x SYSTEM "http://0.0.0.0:{canary}/">]><l>&x;</l>',
    "parameter": '<!DOCTYPE l [<!ENTITY % x SYSTEM "http://127.0.0.1:{canary}/"> %x;]><l>y</l>',
    "xinclude": '<l xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="file:///etc/hostname" parse="text"/></l>',
    "dtd": '<!DOCTYPE l SYSTEM "http://127.0.0.1:{canary}/x.dtd"><l>y</l>',
}
CHARSETS = {
    "false label": (b'<meta charset="utf-16"><title>caf\xe9</title>', "text/html; charset=utf-8"),
    "unknown": (b"<title>caf\xe9</title>", "text/html; charset=x-foo"),
    "utf-7": (b"<title>+ADw-script+AD4-</title>", "text/html; charset=utf-7"),
    "marks": (b"\xef\xbb\xbf" * 3 + b"<title>x</title>", "text/html"),
}
BINARIES = {
    "pdf": b"%PDF-1.7\n",
    "zip": b"PK\x03\x04../../etc/passwd",
    "jpeg": b"\xff\xd8\xff",
    "png": b"\x89PNG\r\n\x1a\n" + bytes(9),
}
JSONS = {
    "deep": b"[" * 100_000,
    "digits": b'{"n": ' + b"9" * 1_000_000 + b"}",
    "twice": b'{"a": 1, "a": 2}',
    "nan": b'{"a": NaN}',
}

DEEDS = {
    "P13": [("regex", "an expression that backtracks without end", "timeout")],
    "P16": [("allocate", "10 GiB of memory", "oom")],
    "P17": [
        ("quit", "os._exit(0)", "crash"),
        ("exit", "sys.exit", "crash"),
        ("parricide", "kills its parent", "crash"),
        ("close", "closes every file", "crash"),
        ("junk", "junk on our own connection", "junk"),
    ],
    "P18": [("endless", "items without end", "output"), ("huge", "an item larger than any page", "output")],
}
REFUSED = {
    "P16 forks": ("forks", "starts processes"),
    "P16 files": ("files", "opens files without end"),
    "C11 network": ("connect", "opens a socket"),
    "C11 disk": ("write", "writes to disk"),
}
ITEMS = {
    "many": "10,000 fields",
    "empty": "a field without a name",
    "number": "a field name that is a number",
    "cyclic": "a value in itself",
    "nan": "not a number",
    "integer": "an integer of 70 bits",
}


def nothing_of_it(evidence: Evidence) -> None:
    assert not evidence.items, "all of a page or nothing"


def no_secret_read(evidence: Evidence) -> None:
    for item in evidence.items:
        assert not (item.get("title") or "").strip("y \n"), item


def two(evidence: Evidence) -> None:
    assert len([item for item in evidence.items if item.get("twin")]) == 2


def crashing(count: int) -> Case:
    ends = {"http://{at}/": "done"}
    for n in range(count):
        ends[f"http://{{at}}/deed/{'segfault' if n % 3 == 0 else 'good'}?{n}"] = (
            "dead poison" if n % 3 == 0 else "done"
        )
    hrefs = "".join(f'<a href="{url.removeprefix("http://{at}")}">x</a>' for url in ends)
    return Case(
        "P22",
        f"a segfault in every third of {count:,} pages",
        site({"/": page(hrefs), "*": page()}),
        ends,
        slow=True,
    )


CASES = [
    Case("P01", "1,000,000 nested elements", once(page("<div>" * 1_000_000)), "done|dead poison", slow=True),
    Case("P04 comment", "a comment that never ends", once(page("<title>x</title><!-- " + "x" * 99)), "done"),
    Case("P04 cdata", "CDATA that never ends", once(page("<title>x</title><![CDATA[ <a href=/x>")), "done"),
    Case(
        "P04 script", "a script that never ends", once(page("<title>x</title><script> <a href=/x>")), "done"
    ),
    Case(
        "P05",
        "markup made for quadratic parsers",
        once(page("<title>x</title>" + "<!--<a " * 200_000)),
        "done|dead poison",
        slow=True,
    ),
    *(
        Case(
            f"P06 {name}",
            "a charset that is not what it says",
            once(page(body, ("Content-Type", kind))),
            "done",
        )
        for name, (body, kind) in CHARSETS.items()
    ),
    Case(
        "P07",
        "surrogates, NUL, U+FFFF and marks in a title",
        once(page("<title>&#xD800;\0\uffff\u202e" + "e\u0301" * 99_999 + "</title>")),
        "done",
    ),
    Case(
        "P08 laughs",
        "entities that multiply",
        site({"/xml": page(LAUGHS, XML)}),
        {"http://{at}/xml": "dead bomb"},
    ),
    Case(
        "P08 quadratic",
        "one long entity, 50,000 times",
        site({"/xml": page(QUADRATIC, XML)}),
        {"http://{at}/xml": "dead bomb"},
    ),
    *(
        Case(
            f"P09 {name}",
            "XML that refers to a file or server",
            site({"/xml": page(text, XML)}),
            {"http://{at}/xml": "done|dead parse_error"},
            check=no_secret_read,
        )
        for name, text in EXTERNAL.items()
    ),
    Case(
        "P10",
        "an XSLT instruction",
        site(
            {"/xml": page('<?xml-stylesheet type="text/xsl" href="http://0.0.0.0:{canary}/"?><l>y</l>', XML)}
        ),
        {"http://{at}/xml": "done"},
    ),
    *(
        Case(
            f"P11 {name}",
            f"JSON: {body[:12].decode()}...",
            site({"/json": page(body, JSON)}),
            {"http://{at}/json": "done|dead parse_error"},
        )
        for name, body in JSONS.items()
    ),
    *(
        Case(f"P12 {name}", f"{name} that says it is HTML", once(page(body)), "done", check=nothing_of_it)
        for name, body in BINARIES.items()
    ),
    *(
        Case(
            f"{row} {deed}",
            f"a spider: {what}",
            site({f"/deed/{deed}": page()}),
            {f"http://{{at}}/deed/{deed}": "dead poison"},
            reason=reason,
            check=nothing_of_it,
        )
        for row, deeds in DEEDS.items()
        for deed, what, reason in deeds
    ),
    *(
        Case(
            id,
            f"a spider that {what}",
            site({f"/deed/{deed}": page()}),
            {f"http://{{at}}/deed/{deed}": "dead parse_error"},
            check=nothing_of_it,
        )
        for id, (deed, what) in REFUSED.items()
    ),
    Case(
        "C11 environment",
        "a spider that reads the environment",
        site({"/deed/environment": page()}),
        {"http://{at}/deed/environment": "done"},
    ),
    *(
        Case(
            f"P20 {name}",
            f"an item with {what}",
            site({f"/item/{name}": page()}),
            {f"http://{{at}}/item/{name}": "dead parse_error"},
            check=nothing_of_it,
        )
        for name, what in ITEMS.items()
    ),
    Case(
        "P20 class",
        "an item with fields like __class__",
        site({"/item/class": page()}),
        {"http://{at}/item/class": "done"},
    ),
    Case(
        "P20 extremes",
        "the first and the last day of time",
        site({"/item/extremes": page()}),
        {"http://{at}/item/extremes": "done"},
    ),
    Case(
        "E01",
        "cells that a spreadsheet would run",
        site({"/item/cells": page()}),
        {"http://{at}/item/cells": "done"},
    ),
    Case(
        "E04",
        "two items that are the same",
        site({"/twins": page()}),
        {"http://{at}/twins": "done"},
        check=two,
    ),
    Case(
        "E07",
        "an archive with ../ in it",
        once(page(b"PK\x03\x04../../../tmp/x", ("Content-Type", "application/zip"))),
        "done",
        check=nothing_of_it,
    ),
]
