"""Drafts that are moved into the place of their outputs."""

import threading
from pathlib import Path

import pytest

from shoal.sinks.drafts import draft_of, moved, publish


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
def test_workers_that_move_a_draft_at_once_lose_nothing(tmp_path: Path, *, is_folder: bool) -> None:
    """Each of several workers on a machine moves the outputs of a generation that has ended."""
    failures: list[Exception] = []
    for number in range(100):
        output = tmp_path / f"items-{number}"
        draft = Path(draft_of(str(output)))
        draft.parent.mkdir(parents=True)
        for place, text in ((output, "old"), (draft, "new")):
            if is_folder:
                place.mkdir()
            (place / "part" if is_folder else place).write_text(text)
        start = threading.Barrier(3)

        def move(output: Path = output, draft: Path = draft, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                publish({str(output): str(draft)})
            except Exception as error:
                failures.append(error)

        workers = [threading.Thread(target=move) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert (output / "part" if is_folder else output).read_text() == "new"
    assert failures == []


@pytest.mark.parametrize(
    ("has_draft", "has_output", "was_moved"),
    [(False, True, True), (True, True, False), (True, False, False), (False, False, False)],
)
def test_a_draft_was_moved_if_only_its_output_exists(
    tmp_path: Path, *, has_draft: bool, has_output: bool, was_moved: bool
) -> None:
    output, draft = tmp_path / "items.jsonl", tmp_path / "draft.jsonl"
    for place, exists in ((output, has_output), (draft, has_draft)):
        if exists:
            place.touch()

    drafts = {str(output): str(draft)}
    assert moved(drafts) == (drafts if was_moved else {})
