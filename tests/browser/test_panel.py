"""The control panel in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from tests.browser._lab import Lab

PROGRAM = """import neuron_lab
import torch

net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to("neuron")

def step(batch):
    print("batch", batch)
    return net(torch.randn(batch, 64, device="neuron"))

panel = neuron_lab.panel(step, batch=[8, 16])
panel"""


def test_choose_run_and_see_the_report_change(lab: Lab, shoot: Callable[[Page, str], Path]) -> None:
    lab.open(PROGRAM, "panel.result.summary.label")
    lab.run_cell(0)
    run = lab.page.get_by_role("button", name="Run", exact=True)
    run.click()
    lab.page.locator(".nx", has_text="step(batch=8)").wait_for()
    lab.page.get_by_label("batch", exact=True).select_option("16")
    lab.page.get_by_role("button", name="compiled").click()
    run.click()
    explorer = lab.page.locator(".nx", has_text="step(batch=16) compiled")
    explorer.wait_for(timeout=60_000)
    assert lab.page.locator(".nx").count() == 1
    printed = lab.page.locator(".widget-output pre").inner_text().splitlines()
    assert printed == ["batch 16"] * 2, "once to be warm, once measured"
    shoot(lab.page, "panel-light-1600")
