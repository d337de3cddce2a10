"""Profiles inside of profiles, beside each other, left open, forked and pickled: each is defined, and no hook stays behind."""

from __future__ import annotations

import pickle
import threading

import pytest

import neuron_lab
from tests.shell.conftest import Shell, hooks

RUN = "dev.run('aten::mm')"


def rows(shell: Shell) -> list[tuple[str, int]]:
    """Label and op calls of every profile that has ended, in that order."""
    return [(row.label, row.op_calls) for row in neuron_lab.session().rows]


def test_block_in_a_profiled_cell(shell: Shell) -> None:
    assert shell.run(
        f"%%neuron profile\nimport neuron_lab\n{RUN}\nwith neuron_lab.profile(label='inner'):\n    {RUN}"
    ).success
    assert rows(shell) == [("inner", 1), ("In[1]", 2)]


def test_function_that_profiles_in_a_profiled_cell(shell: Shell) -> None:
    shell.run(
        f"import neuron_lab\n@neuron_lab.profile\ndef step(n):\n    {RUN}\n    return step(n - 1) if n else 'done'"
    )
    assert shell.run(f"%%neuron profile\n{RUN}\nstep(2)").result == "done"
    assert rows(shell) == [("step", 1), ("step", 2), ("step", 3), ("In[2]", 4)]


def test_statement_in_a_profiled_cell(shell: Shell) -> None:
    shell.run(f"def step():\n    {RUN}\n    return 5")
    assert shell.run(f"%%neuron profile\n{RUN}\n%neuron profile -q step()").result == 5
    assert rows(shell) == [("In[2]", 1), ("In[2]", 2)]


def test_blocks_of_two_threads_end_in_any_order(shell: Shell) -> None:
    cell = f"""%%neuron profile
import threading, neuron_lab
first, second = threading.Event(), threading.Event()
def early():
    with neuron_lab.profile(label='early'):
        {RUN}
        second.wait(9)
    first.set()
def late():
    with neuron_lab.profile(label='late'):
        second.set()
        first.wait(9)
        {RUN}
threads = [threading.Thread(target=f) for f in (early, late)]
threads[0].start()
threads[1].start()
for thread in threads:
    thread.join()"""
    assert shell.run(cell).success
    assert rows(shell)[0] == ("early", 1)
    assert rows(shell)[1][0] == "late"
    assert rows(shell)[2] == ("In[1]", 2)


def test_cells_of_two_subshells(shell: Shell) -> None:
    """The one that began later goes on when the other has ended."""
    begun, ended = threading.Event(), threading.Event()
    later = f"%%neuron profile -q -o later\nbegun.set(); ended.wait(9)\n{RUN}; {RUN}"
    subshell = threading.Thread(target=shell.run, args=(later,), kwargs={"store_history": False})
    shell.ip.user_ns |= {"begun": begun, "ended": ended, "subshell": subshell}
    shell.run(f"%%neuron profile -q -o earlier\nsubshell.start(); begun.wait(9)\n{RUN}")
    ended.set()
    subshell.join()
    assert shell.ip.user_ns["earlier"].summary.op_calls == 1
    assert shell.ip.user_ns["later"].summary.op_calls == 3


def test_one_block_entered_by_two_tasks(shell: Shell) -> None:
    cell = f"""%%neuron profile
import asyncio, neuron_lab
block = neuron_lab.profile()
async def step(before, after):
    with block as p:
        for _ in range(before):
            await asyncio.sleep(0)
        {RUN}
        for _ in range(after):
            await asyncio.sleep(0)
    return p.summary.op_calls
await asyncio.gather(step(0, 1), step(2, 1), step(1, 0))"""
    assert shell.run(cell).result == [1, 2, 1]
    assert shell.profile.summary.op_calls == 3  # the cell


def test_coroutines_that_profile_side_by_side(shell: Shell) -> None:
    cell = f"""%%neuron profile
import asyncio, neuron_lab
@neuron_lab.profile
async def step(n):
    for _ in range(n):
        await asyncio.sleep(0)
        {RUN}
await asyncio.gather(step(3), step(1), step(2))"""
    assert shell.run(cell).success
    assert [label for label, _ in rows(shell)] == ["step", "step", "step", "In[1]"]
    assert shell.profile.summary.op_calls == 6


def test_generator_that_is_left_open(shell: Shell) -> None:
    shell.run(
        f"import neuron_lab\ndef batches():\n    with neuron_lab.profile(label='open'):\n        {RUN}\n        yield 1\n        yield 2"
    )
    assert shell.run(f"%%neuron profile\nopen = batches()\nnext(open)\n{RUN}").success
    assert rows(shell) == [("In[2]", 2)]
    shell.run("open.close()")
    assert neuron_lab.last().summary.error == "GeneratorExit"
    assert rows(shell) == [("In[2]", 2), ("open", 2)]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_generator_function_is_refused(shell: Shell, kind: str) -> None:
    assert not shell.run(f"import neuron_lab\n@neuron_lab.profile\n{kind} batches():\n    yield 1").success
    assert "batches() gives its values one by one" in shell.errors[0]


def test_a_label_in_the_functions_place(shell: Shell) -> None:
    assert not shell.run("import neuron_lab\nwith neuron_lab.profile('step'):\n    pass").success
    assert "UsageProblem: 'step' cannot be called; a label is given by its name, profile(label=…)" in shell.errors[0]


def test_reloading_in_a_profiled_cell(shell: Shell) -> None:
    before = {kind: len(items) for kind, items in hooks(shell.ip).items()}
    assert shell.run(f"%%neuron profile\n{RUN}\n%reload_ext neuron_lab\n{RUN}").success
    assert {kind: len(items) for kind, items in hooks(shell.ip).items()} == before
    assert shell.device.sessions == []
    shell.run(f"%%neuron profile\n{RUN}")
    assert rows(shell)[-1] == ("In[2]", 1)


def test_cell_that_runs_cells(shell: Shell) -> None:
    assert shell.run(
        f"%%neuron profile\nip = get_ipython()\nip.run_cell('1/0')\nip.run_cell('''%%neuron profile\n{RUN}''')\n{RUN}"
    ).success
    assert [calls for _, calls in rows(shell)] == [1, 2]


def test_fork_in_a_profiled_cell(shell: Shell) -> None:
    cell = f"""%%neuron profile
import os
{RUN}
child = os.fork()
if not child:
    os._exit(7)
os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"""
    assert shell.run(cell).result == 7
    assert rows(shell) == [("In[1]", 1)]


def test_directory_changes_in_a_profiled_cell(shell: Shell, tmp_path: object) -> None:
    before = shell.run("import os\nos.getcwd()").result
    assert shell.run(f"%%neuron profile\nos.chdir({str(tmp_path)!r})\n{RUN}").success
    assert shell.run(f"%%neuron profile\nos.chdir({before!r})\n{RUN}").success
    assert len(shell.reports) == 2


def test_result_is_pickled(shell: Shell) -> None:
    shell.run(f"%%neuron profile -o kept\n{RUN}")
    kept = shell.profile
    again = pickle.loads(pickle.dumps(kept))
    assert again.to_text() == kept.to_text()
    assert again.recording == kept.recording
    shell.run("import copy\nagain = copy.deepcopy(kept)")
    assert shell.ip.user_ns["again"].to_html() == kept.to_html()


def test_result_that_still_runs_is_not_pickled(shell: Shell) -> None:
    with neuron_lab.profile() as running, pytest.raises(neuron_lab.errors.UsageProblem, match="still running"):
        pickle.dumps(running)


def test_debugger_and_tracer_stay_the_users(shell: Shell) -> None:
    shell.run("import sys\nseen = []\ndef tracer(frame, event, arg):\n    seen.append(event)\n")
    result = shell.run(
        f"%%neuron profile\nsys.settrace(tracer)\nsys.setprofile(None)\nf = lambda: {RUN}\nf()\nkept = sys.gettrace() is tracer\nsys.settrace(None)\nkept"
    )
    assert result.result is True
    assert "call" in shell.ip.user_ns["seen"]
