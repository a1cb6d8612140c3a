from shoal.parse.fork_server_client import environment


def test_user_code_does_not_see_our_secrets() -> None:
    ours = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "/x",
        "SHOAL_STORE": "redis://:secret@host",
        "TOKEN": "t",
    }

    theirs = environment(ours)

    assert theirs.items() >= {"PATH": "/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": "/x"}.items()
    assert not {"SHOAL_STORE", "TOKEN"} & theirs.keys()


def test_children_keep_their_memory_between_pages() -> None:
    assert {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"} <= environment({}).keys()
