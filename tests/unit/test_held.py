"""Who holds HBM, as rows."""

from __future__ import annotations

from neuron_lab.recording import Holding
from neuron_lab.render import memory_html, memory_text
from neuron_lab.report import held_rows


def holding(*names: str, size: int = 4, kind: str = "activations", core: int = 0) -> Holding:
    return Holding(names=names, kind=kind, bytes=size, shape=(size // 4,), dtype="float32", core=core)


def test_what_differs_in_an_index_is_one_row_the_largest_first() -> None:
    many = [holding(f"kept[{n}]", size=4 * (n + 1)) for n in range(3)]
    rows = held_rows([holding("x", size=16), *many])
    assert [(row.name + row.count, row.bytes, row.tensor) for row in rows] == [
        ("kept[…], 3×", 24, "3 shapes"),
        ("x", 16, "float32[4]"),
    ]
    assert rows[0].names == ("kept[0]", "kept[1]", "kept[2]")


def test_two_of_a_list_and_those_of_other_kinds_or_cores_stay_apart() -> None:
    two = [holding("kept[0]"), holding("kept[1]")]
    other = [holding("kept[2]", kind="gradients"), holding("kept[3]", core=1)]
    assert [row.name for row in held_rows([*two, *other])] == ["kept[0]", "kept[1]", "kept[2]", "kept[3]"]


def test_further_names_of_one_block_are_counted_and_none_is_said() -> None:
    named, nameless = held_rows([holding("x", "y", "z"), holding()])
    assert (named.name, named.count) == ("x", " (+2)")
    assert "no name" in nameless.name and nameless.count == ""


def test_a_name_with_no_letters_of_utf_8_is_shown() -> None:
    held = [holding("\x1b[2J \ud800")]
    for page in (memory_text([], held, None), memory_html([], held, None)):
        page.encode()
        assert "\x1b" not in page
