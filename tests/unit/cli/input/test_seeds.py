"""Start URLs, one a line: good ones are taken, bad ones are named, and none is held longer than needed."""

import gzip
from pathlib import Path

import pytest

from shoal.cli.input.seeds import CHUNK, LONGEST, SHOWN, SeedFile
from shoal.model.errors import Misconfigured


def listed(folder: Path, content: bytes, name: str = "urls.txt") -> SeedFile:
    path = folder / name
    path.write_bytes(content)
    return SeedFile(str(path))


async def urls_of(seeds: SeedFile) -> list[str]:
    return [url async for piece in seeds.pieces() for url in piece]


async def test_urls_are_taken_in_order_and_in_canonical_form(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfhttps://B.test\r\n\n# a remark\r  https://a.test/x#top \nhttps://c.test/"
    seeds = listed(tmp_path, text)

    assert await urls_of(seeds) == ["https://b.test/", "https://a.test/x", "https://c.test/"]
    assert (seeds.first, seeds.lines, seeds.bad) == ("https://b.test/", 5, 0)


async def test_a_line_that_is_no_url_is_named_and_costs_the_others_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seeds = listed(tmp_path, b"https://a.test/\nnot a url\nftp://a.test/\n\xff\nhttps://b.test/\n")

    assert await urls_of(seeds) == ["https://a.test/", "https://b.test/"]
    assert seeds.bad == 3
    said = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[1].rpartition(":")[2] for line in said] == ["2", "3", "4"]
    assert said[2].endswith("not a text in UTF-8")


async def test_a_file_of_something_else_does_not_fill_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    await urls_of(listed(tmp_path, b"https://a.test/\n" + b"nonsense\n" * 5_000))

    said = capfd.readouterr().err.splitlines()
    assert len(said) == SHOWN + 1
    assert said[-1].endswith("and 4,990 more lines that are no start URLs")


async def test_lines_are_whole_wherever_a_chunk_ends(tmp_path: Path) -> None:
    urls = [f"https://a.test/{'x' * (number % 97)}é{number}" for number in range(3 * CHUNK // 64)]
    text = "\r\n".join(urls).encode()
    assert len(text) > 3 * CHUNK
    seeds = listed(tmp_path, text)

    found = await urls_of(seeds)

    assert [url.rpartition("%A9")[2] for url in found] == [str(number) for number in range(len(urls))]
    assert seeds.lines == len(urls)


async def test_a_line_without_an_end_is_not_held(tmp_path: Path) -> None:
    seeds = listed(tmp_path, b"https://a.test/\n" + b"x" * (4 * CHUNK) + b"\nhttps://b.test/\n")

    held = [len(seeds._rest) async for _ in seeds.pieces()]

    assert (seeds.bad, seeds.lines) == (1, 3)
    assert max(held) <= LONGEST + 1


async def test_a_compressed_list_is_read_by_its_name(tmp_path: Path) -> None:
    packed = gzip.compress(b"https://a.test/\n") + gzip.compress(b"https://b.test/\n")

    assert await urls_of(listed(tmp_path, packed, "urls.txt.gz")) == ["https://a.test/", "https://b.test/"]


async def test_a_list_that_breaks_off_is_an_error_after_what_it_had(tmp_path: Path) -> None:
    lines = "".join(f"https://a.test/{n * n}\n" for n in range(40_000))
    seeds = listed(tmp_path, gzip.compress(lines.encode())[:-100], "urls.txt.gz")
    taken = 0

    with pytest.raises(Misconfigured, match=r"cannot be read after line \d+"):
        async for piece in seeds.pieces():
            taken += len(piece)

    assert taken > 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read: No such file"),
        (b"", "no start URL in"),
        (b"nonsense\n", "urls.txt:1: "),
        (b"\xff\xfe", "not a text in UTF-8"),
    ],
)
def test_a_file_without_a_start_url_is_refused(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        SeedFile(str(tmp_path / "none")) if content is None else listed(tmp_path, content)


def test_a_folder_is_no_list(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="Is a directory"):
        SeedFile(str(tmp_path))
