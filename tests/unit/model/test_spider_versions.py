"""Versions of a spider: numbered once, and never more than are kept."""

from shoal.model.spider_versions import KEPT, Reparse, SpiderVersions


def test_a_version_keeps_its_number_and_a_new_one_gets_the_next() -> None:
    versions = SpiderVersions()
    assert [versions.number(digest, 1.0) for digest in ("a", "b", "a")] == [1, 2, 1]

    loaded = SpiderVersions.load(versions.dump())
    assert loaded.number("b", 9.0) == 2
    assert loaded.known[2].since == 1.0
    assert SpiderVersions.load(None).number("b", 1.0) == 1


def test_versions_are_bounded_and_no_number_is_used_twice() -> None:
    versions = SpiderVersions()
    for n in range(3 * KEPT):
        assert versions.number(f"digest {n}", float(n)) == n + 1
        versions.add_reparse(Reparse("d", float(n), "out.jsonl"))
    assert len(versions.known) == len(versions.reparses) == KEPT
    assert min(versions.known) == 2 * KEPT + 1
    assert versions.number("digest 0", 0.0) == 3 * KEPT + 1
    assert len(versions.dump()) < 40_000
