"""Every view in both themes, 900 and 1600 pixels wide: nothing is cut or overlaps, and pictures are kept to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page

from tests.browser import test_panel
from tests.browser._lab import Lab
from tests.browser.test_explorer import LOOP, PROGRAM

# Text that does not fit its box, unless the box scrolls or shows the whole text in its tooltip, and siblings that lie on each other.
FAULTS = """root => {
  const faults = [];
  const seen = (e) => e.clientWidth && getComputedStyle(e).visibility !== 'hidden';
  for (const e of root.querySelectorAll('button, h4, label, .nx-head > div, .nrn-bit, .nx-made, .nx-spent, .nx-row > span, .nx-soft'))
    if (seen(e) && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'visible') faults.push(`cut: ${e.className} ${e.textContent}`);
  for (const row of root.querySelectorAll('.nx-row, .nx-load, .nx-holding, .nx-line, .nx-tr')) {
    const boxes = [...row.children].filter(seen).map(e => [e, e.getBoundingClientRect()]);
    for (const [a, one] of boxes) for (const [b, two] of boxes)
      if (a !== b && one.left < two.right - 1 && two.left < one.right - 1 && one.top < two.bottom - 1 && two.top < one.bottom - 1)
        faults.push(`overlap: ${a.textContent} / ${b.textContent}`);
  }
  if (root.scrollWidth > root.clientWidth) faults.push('wider than its place');
  return faults;
}"""
_VIEWS = {
    "explorer": LOOP,
    "pair": LOOP.replace("-o p", "-o q --compare p"),
    "memory": "%neuron memory",
    "session": "%neuron report",
    "top": "%neuron top",
    "panel": test_panel.PROGRAM,
}


def _view(lab: Lab, name: str) -> Locator:
    cell = lab.page.locator(".jp-CodeCell").nth(1 + list(_VIEWS).index(name))
    if name == "panel":
        cell.get_by_role("button", name="Run", exact=True).click()
    cell.locator(".nx-both[data-ready]" if name == "pair" else ".nx[data-ready]").wait_for(timeout=60_000)
    assert cell.locator(".jp-RenderedHTMLCommon > .nrn:visible").count() == 0, "what it takes the place of"
    return cell.locator(".jp-Cell-outputWrapper")


def test_nothing_is_cut_or_overlaps(lab: Lab, shoot: Callable[[Page, str], Path]) -> None:
    lab.open(PROGRAM, *_VIEWS.values())
    lab.run()
    views = {name: _view(lab, name) for name in _VIEWS}
    faults = []
    for theme in ("Light", "Dark"):
        lab.theme(theme)
        for width in (900, 1600):
            lab.resize(width)
            for name, view in views.items():
                view.evaluate("e => (e.querySelector('.nx-pair') ?? e).scrollIntoView()")
                lab.frame()
                faults += [f"{name} {theme} {width}: {fault}" for fault in view.evaluate(FAULTS)]
                shoot(lab.page, f"{name}-{theme.lower()}-{width}")
    assert faults == []
