"""Start URLs, one per line: valid ones are read, bad ones are reported, memory stays bounded."""

import gzip
from pathlib import Path

import pytest

from shoal.cli.input.seeds import CHUNK_BYTES, MAX_REPORTED_LINES, SeedFile
from shoal.model.errors import Misconfigured
from shoal.model.start_url import MAX_LINE_CHARS


def listed(folder: Path, content: bytes, name: str = "urls.txt") -> SeedFile:
    path = folder / name
    path.write_bytes(content)
    return SeedFile(str(path))


async def urls_of(seeds: SeedFile) -> list[str]:
    return [url async for piece in seeds.pieces() for url in piece]


async def test_urls_are_read_in_order_and_in_canonical_form(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfhttps://B.test\r\n\n# a remark\r  https://a.test/x#top \nhttps://c.test/"
    seeds = listed(tmp_path, text)

    assert await urls_of(seeds) == ["https://b.test/", "https://a.test/x", "https://c.test/"]
    assert (seeds.first, seeds.lines, seeds.bad) == ("https://b.test/", 5, 0)


async def test_a_line_that_is_not_a_url_is_reported_and_the_others_are_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seeds = listed(tmp_path, b"https://a.test/\nnot a url\nftp://a.test/\n\xff\nhttps://b.test/\n")

    assert await urls_of(seeds) == ["https://a.test/", "https://b.test/"]
    assert seeds.bad == 3
    printed = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[1].rpartition(":")[2] for line in printed] == ["2", "3", "4"]
    assert printed[2].endswith("not UTF-8 text")


async def test_only_the_first_bad_lines_are_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    await urls_of(listed(tmp_path, b"https://a.test/\n" + b"nonsense\n" * 5_000))

    printed = capfd.readouterr().err.splitlines()
    assert len(printed) == MAX_REPORTED_LINES + 1
    assert printed[-1].endswith("and 4,990 more lines that are not start URLs")


async def test_a_line_that_spans_two_chunks_is_read_whole(tmp_path: Path) -> None:
    urls = [f"https://a.test/{'x' * (number % 97)}é{number}" for number in range(3 * CHUNK_BYTES // 64)]
    text = "\r\n".join(urls).encode()
    assert len(text) > 3 * CHUNK_BYTES
    seeds = listed(tmp_path, text)

    found = await urls_of(seeds)

    assert [url.rpartition("%A9")[2] for url in found] == [str(number) for number in range(len(urls))]
    assert seeds.lines == len(urls)


async def test_a_very_long_line_is_not_kept_in_memory(tmp_path: Path) -> None:
    seeds = listed(tmp_path, b"https://a.test/\n" + b"x" * (4 * CHUNK_BYTES) + b"\nhttps://b.test/\n")

    held = [len(seeds._partial_line) async for _ in seeds.pieces()]

    assert (seeds.bad, seeds.lines) == (1, 3)
    assert max(held) <= MAX_LINE_CHARS + 1


async def test_a_list_whose_name_ends_in_gz_is_decompressed(tmp_path: Path) -> None:
    packed = gzip.compress(b"https://a.test/\n") + gzip.compress(b"https://b.test/\n")

    assert await urls_of(listed(tmp_path, packed, "urls.txt.gz")) == ["https://a.test/", "https://b.test/"]


async def test_a_truncated_list_is_an_error_after_its_readable_lines(tmp_path: Path) -> None:
    lines = "".join(f"https://a.test/{n * n}\n" for n in range(40_000))
    seeds = listed(tmp_path, gzip.compress(lines.encode())[:-100], "urls.txt.gz")
    taken = 0

    with pytest.raises(Misconfigured, match=r"cannot be read after line \d+"):
        async for piece in seeds.pieces():
            taken += len(piece)

    assert taken > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"", "no start URL in"),
        (b"nonsense\n", "urls.txt:1: "),
        (b"\xff\xfe", "not UTF-8 text"),
    ],
)
def test_a_file_without_a_start_url_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=message):
        SeedFile(str(tmp_path / "none")) if content is None else listed(tmp_path, content)


def test_a_folder_is_not_a_list(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="Is a directory"):
        SeedFile(str(tmp_path))
