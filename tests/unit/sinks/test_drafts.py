"""Drafts that are moved into the place of their outputs."""

import threading
from pathlib import Path

import pytest

from shoal.sinks.drafts import draft_of, publish


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
