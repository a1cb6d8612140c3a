from shoal.sinks.columns import MAX_COLUMNS, Columns


def test_fields_keep_the_order_of_their_first_appearance() -> None:
    columns = Columns().widen({"b": 1, "a": 2}).widen({"a": 1, "c": 3})

    assert columns.fields == ["b", "a", "c"]
    assert columns.row({"c": 3, "b": 1}) == [1, None, 3]


def test_columns_hold_a_record_without_new_fields() -> None:
    columns = Columns(["a", "b"])

    assert columns.hold({"b": 1})
    assert columns.hold({})
    assert not columns.hold({"b": 1, "c": 2})


def test_beyond_the_limit_fields_share_a_column() -> None:
    many = {f"f{n}": n for n in range(MAX_COLUMNS + 5)}

    columns = Columns(["a"]).widen(many)

    assert len(columns.fields) == MAX_COLUMNS
    assert columns.closed
    assert columns.row(many)[-1] == {f"f{n}": n for n in range(MAX_COLUMNS - 1, MAX_COLUMNS + 5)}
    assert columns.row({"a": 1})[-1] is None
    assert columns.hold({"whatever": 1})
    assert columns.names()[-1] == "_more"


def test_closing_adds_no_columns() -> None:
    columns = Columns(["a"]).widen({"a": 1, "b": 2}, close=True)

    assert columns.fields == ["a"]
    assert columns.row({"a": 1, "b": 2}) == [1, {"b": 2}]


def test_equal_names_are_numbered() -> None:
    columns = Columns(["Name", "name", "NAME", "name_2", "_key", "_more"], closed=True)

    names = columns.names(fold=str.lower, taken=["_key"])

    assert names == ["Name", "name_2", "NAME_3", "name_2_2", "_key_2", "_more", "_more_2"]
