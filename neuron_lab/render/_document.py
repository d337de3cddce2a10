"""A report outside of a notebook: one HTML page, and CSV."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from neuron_lab.report import Report

# Nothing may be fetched and nothing may run, whatever is in the names of a program.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SCRIPTED = "; script-src 'sha256-{}'"


def document(title: str, body: str, script: str = "") -> str:
    """The page around a fragment: light or dark as the reader's system, nothing fetched. Of all script only `script`, a module, may run."""
    policy, module = _POLICY, ""
    if script:
        digest = hashlib.sha256(script.encode()).digest()
        policy += _SCRIPTED.format(base64.b64encode(digest).decode("ascii"))
        module = f'<script type="module">{script}</script>'
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} – neuron_lab</title>"
        "<style>:root{color-scheme:light dark}body{margin:16px}</style></head>"
        f"<body>{body}{module}</body></html>\n"
    )


def csv_tables(report: Report) -> dict[str, str]:
    """A CSV for each table, by its name: UTF-8, a header line, "\\n" at the end of a line."""
    import pandas as pd

    frames = {
        "summary": pd.DataFrame([report.summary.as_dict()]),
        "ops": report.ops,
        "neffs": report.neffs,
        "lines": report.lines,
        "modules": report.modules,
        "compiles": report.compiles,
        "recompiles": report.recompiles,
        "graphs": report.graphs,
        "fallbacks": report.fallbacks,
        "copies": report.copies,
        "memory": report.memory,
        "findings": report.findings.frame,
    }
    return {name: frame.to_csv(index=False, lineterminator="\n") for name, frame in frames.items()}
