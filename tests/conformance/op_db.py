"""The conformance run: PyTorch's operator samples through the device, in processes of their own.

python -m tests.conformance.op_db            run everything and report
python -m tests.conformance.op_db --write    the same, then record the coverage table
python -m tests.conformance.op_db --only REGEX --samples 2 --dtype int64
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from .coverage import TABLE, Call, classify, read_table, write_table
from .op_samples import Finding

SAMPLES = 4
SHARDS = 2
DTYPE = "float32"
STUCK_S = 240
"""Seconds without a finished entry after which a process counts as hanging."""


@dataclass(slots=True)
class Outcome:
    """Everything a run found."""

    findings: list[Finding] = field(default_factory=list)
    calls: Counter[Call] = field(default_factory=Counter)
    crashes: list[tuple[str, str]] = field(default_factory=list)
    """(op_db entry, last lines of the process)."""

    def add(self, other: Outcome) -> None:
        self.findings += other.findings
        self.calls += other.calls
        self.crashes += other.crashes

    def of(self, outcome: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.outcome == outcome]


@functools.cache
def database() -> list[Any]:
    """PyTorch's operators and, after them, its foreach functions."""
    from torch.testing._internal import common_methods_invocations as db

    foreach = [getattr(db, f"foreach_{kind}_op_db") for kind in ("unary", "binary", "pointwise", "reduce", "other")]
    return [*db.op_db, *itertools.chain.from_iterable(foreach)]


def entries(only: str = "", every: int = 1, dtype: str = DTYPE) -> list[int]:
    """Positions in the database of the entries to run: those that take ``dtype``."""
    wanted, kind = re.compile(only), getattr(torch, dtype)
    chosen = [
        i for i, info in enumerate(database()) if wanted.search(info.name) and kind in info.supported_dtypes("cpu")
    ]
    return chosen[::every]


def run(
    positions: Iterable[int],
    *,
    samples: int = SAMPLES,
    shards: int = SHARDS,
    variants: bool = True,
    dtype: str = DTYPE,
) -> Outcome:
    """Run op_db entries in ``shards`` processes at a time; one that dies is recorded and the rest goes on in another."""
    todo = list(positions)
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as directory:
        running = [
            _Shard(todo[i::shards], samples, variants, dtype, Path(directory) / f"{i}.jsonl")
            for i in range(shards)
            if todo[i::shards]
        ]
        with ThreadPoolExecutor(shards) as pool:
            for part in pool.map(_Shard.run, running):
                outcome.add(part)
    return outcome


class _Shard:
    """One stream of entries, in one process after another."""

    def __init__(self, todo: list[int], samples: int, variants: bool, dtype: str, log: Path) -> None:
        self._todo = todo
        self._options = ["--samples", str(samples), "--dtype", dtype, *([] if variants else ["--no-variants"])]
        self._log = log

    def run(self) -> Outcome:
        outcome = Outcome()
        while self._todo:
            self._log.unlink(missing_ok=True)
            code, error = self._once()
            done = self._read(outcome)
            if code:
                outcome.crashes.append((_name(self._todo[done]), f"exit {code}: {error}"))
                done += 1
            self._todo = self._todo[done:]
        return outcome

    def _once(self) -> tuple[int, str]:
        """Start a process on what is left: its exit code and the end of what it wrote."""
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.conformance.op_db", "--worker", str(self._log)]
        done = subprocess.run(
            [*command, "--positions", ",".join(map(str, self._todo)), *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        return done.returncode, done.stderr[:1500]

    def _read(self, outcome: Outcome) -> int:
        """Take over what the process wrote; how many entries it finished."""
        done = 0
        for line in self._log.read_text().splitlines() if self._log.exists() else []:
            record = json.loads(line)
            done += 1
            outcome.findings += [Finding(**finding) for finding in record["findings"]]
            for *call, count in record["calls"]:
                outcome.calls[Call(*call)] += count
        return done


def _name(position: int) -> str:
    return str(database()[position].name)


def _work(log: Path, positions: list[int], samples: int, variants: bool, dtype: str) -> None:
    import faulthandler

    from neuron_lab.emulator import shim

    from .op_samples import check

    torch.set_num_threads(1)
    with log.open("w") as file:
        for position in positions:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            session = shim().open_session(1)
            findings = list(check(database()[position], samples, getattr(torch, dtype), variants))
            shim().close_session(session)
            calls: Counter[Call] = Counter()
            for row in shim().drain(session)["totals"]:
                calls[Call(row[0], row[1], row[-1])] += row[4]
            record = {
                "findings": [asdict(finding) for finding in findings],
                "calls": [[call.op, call.kind, call.reason, count] for call, count in sorted(calls.items())],
            }
            file.write(json.dumps(record) + "\n")
            file.flush()
    faulthandler.cancel_dump_traceback_later()


def summary(outcome: Outcome, table: Mapping[str, Any]) -> str:
    """The run in a few lines."""
    lines = [f"samples: {dict(Counter(finding.outcome for finding in outcome.findings))}"]
    lines.append(f"overloads: {dict(Counter(row.group for row in table.values()))}")
    lines += [
        f"{f.outcome} {f.entry}[{f.sample}] {f.variant}: {f.detail}"
        for f in outcome.findings
        if f.outcome in ("wrong", "refused", "accepted")
    ]
    lines += [f"crash {name}: {detail}" for name, detail in outcome.crashes]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression on op_db names")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--dtype", default=DTYPE)
    parser.add_argument("--no-variants", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"record the table in {TABLE.name}")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--positions", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        warnings.simplefilter("ignore")
        positions = [int(p) for p in options.positions.split(",")]
        _work(options.worker, positions, options.samples, not options.no_variants, options.dtype)
        return 0
    outcome = run(
        entries(options.only, options.every, options.dtype),
        samples=options.samples,
        variants=not options.no_variants,
        dtype=options.dtype,
    )
    table = classify(outcome.calls)
    print(summary(outcome, table))
    if options.write:
        write_table(table)
    elif not options.only and options.dtype == DTYPE:
        known = read_table()
        for op in sorted(known.keys() | table.keys()):
            if known.get(op) != table.get(op):
                print(f"{op}: {known.get(op)} -> {table.get(op)}")
    return 1 if outcome.crashes or outcome.of("wrong") else 0


if __name__ == "__main__":
    sys.exit(main())
