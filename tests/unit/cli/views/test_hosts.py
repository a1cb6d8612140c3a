"""The columns of the slowest hosts."""

from shoal.cli.views.hosts import HostRow, host_lines


def test_the_columns_of_a_host_do_not_run_together() -> None:
    [_, line] = host_lines([HostRow("a.example", 21, 9.44, 198.0)], 80)
    assert "".join(text for text, _ in line).split("  ")[0] == "a.example"
    assert " 21  1 in 9.44 s " in "".join(text for text, _ in line)
