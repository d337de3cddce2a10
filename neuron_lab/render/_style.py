"""The one style sheet.

Text takes the colour of the page it stands in and everything else is a mid tone that shows on light and dark, so that any
theme of any front end works, and a switch needs nothing. `prefers-color-scheme` would be wrong: a dark desktop shows light pages.
"""

from __future__ import annotations

# Contrast of at least 3:1 against white and against the #111 of JupyterLab's dark theme. The legend carries the numbers, so
# that nothing hangs on telling hues apart.
PART_COLORS = {
    "compile": "#c97b12",
    "load": "#a3872a",
    "startup": "#a86b4c",
    "device": "#3d7fd9",
    "fallback": "#d6455d",
    "copies": "#179a82",
    "rest": "#8b929b",
}

STYLE = """<style>
.nrn{color:var(--jp-content-font-color1,inherit);
font:13px/1.45 var(--jp-content-font-family,system-ui,-apple-system,"Segoe UI",sans-serif);
max-width:1080px;margin:4px 0 8px;font-variant-numeric:tabular-nums}
/* nbconvert leaves no room beside an output without a number */
.jp-OutputArea-prompt:empty+.jp-OutputArea-output[tabindex]>.nrn{margin-left:12px}
.nrn .nrn-head{display:flex;gap:0 14px;align-items:baseline}
.nrn .nrn-head>*{min-width:0;overflow-wrap:anywhere}
.nrn .nrn-head b{font-weight:600}
.nrn .nrn-bit{display:inline-block;max-width:100%;overflow-wrap:anywhere}
.nrn .nrn-wall{margin-left:auto;flex:none;white-space:nowrap;font-size:15px;font-weight:600}
.nrn .nrn-soft{opacity:.68}
.nrn .nrn-partial{margin:4px 0;padding:2px 8px;border-left:3px solid #d6455d;font-weight:600}
.nrn .nrn-bar{display:flex;height:14px;gap:1px;margin:6px 0 5px;border-radius:3px;overflow:hidden}
.nrn .nrn-bar span{min-width:2px}
.nrn .nrn-legend{display:flex;flex-wrap:wrap;gap:1px 14px;margin:0 0 2px;font-size:12px}
.nrn .nrn-key{display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:6px}
.nrn .nrn-scroll{overflow-x:auto;margin:10px 0 6px;container-type:inline-size}
.nrn table.nrn-t{border-collapse:collapse;border:0;margin:0;font-size:12px;table-layout:auto}
.nrn table.nrn-t th,.nrn table.nrn-t td{border:0;padding:2px 0 2px 11px;text-align:right;white-space:nowrap;vertical-align:baseline;
background:none;max-width:none}
.nrn table.nrn-t thead th{opacity:.68;font-weight:500;padding-top:0}
.nrn table.nrn-t thead tr:last-child th,.nrn table.nrn-t thead th[rowspan]{border-bottom:1px solid #8886;
vertical-align:bottom}
.nrn table.nrn-t tbody tr,.nrn table.nrn-t tbody tr:nth-child(even),.nrn table.nrn-t tbody tr:hover{background:none}
.nrn table.nrn-t tbody tr+tr td,.nrn table.nrn-t tbody tr+tr th{border-top:1px solid #8883}
.nrn table.nrn-t th.nrn-name{white-space:pre}
.nrn table.nrn-t .nrn-name{text-align:left;padding-left:8px;font-weight:400;border-left:3px solid transparent;
font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace);max-width:230px;overflow:hidden;text-overflow:ellipsis}
.nrn table.nrn-t .nrn-long{max-width:430px}
.nrn table.nrn-t tr.nrn-cpu .nrn-name{border-left-color:#d6455d}
.nrn table.nrn-t .nrn-no{opacity:.6;font-weight:400;padding-left:8px;border-left:3px solid transparent;
font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace)}
.nrn table.nrn-t tr.nrn-cpu .nrn-no{border-left-color:#d6455d;opacity:1}
.nrn table.nrn-t .nrn-src{text-align:left;max-width:300px;max-width:min(460px,34cqw);overflow:hidden;text-overflow:ellipsis}
.nrn table.nrn-t .nrn-src code{white-space:pre;background:none;color:inherit;padding:0;
font:12px/1.45 var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace)}
.nrn table.nrn-t .nrn-file{text-align:left;font-weight:600;padding-left:8px}
.nrn table.nrn-t .nrn-left{text-align:left;white-space:normal;overflow-wrap:anywhere}
.nrn table.nrn-t .nrn-wide{min-width:13em}
.nrn table.nrn-t thead th.nrn-group{padding-bottom:0;text-align:center}
.nrn table.nrn-t thead th.nrn-group span{display:block;border-bottom:1px solid #8886}
.nrn .nrn-tag{margin-left:7px;padding:0 5px;border-radius:3px;background:#c2354c;color:#fff;
font:600 10px/1.6 var(--jp-content-font-family,system-ui,sans-serif)}
.nrn .nrn-finding{margin:5px 0;padding-left:8px;border-left:3px solid #c97b12}
.nrn .nrn-hbm{margin:8px 0}
.nrn .nrn-hbm b{font-weight:600}
.nrn svg.nrn-curve{display:block;width:100%;height:44px;margin:3px 0 0;border-bottom:1px solid #8886}
.nrn .nrn-axis{display:flex;justify-content:space-between;opacity:.68;font-size:11px}
.nrn .nrn-foot{opacity:.68;font-size:11.5px;margin-top:6px}
.nrn .nrn-code{font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace);font-size:12px}
@container (max-width:820px){.nrn table.nrn-t th,.nrn table.nrn-t td{padding-left:6px}
.nrn table.nrn-t .nrn-src{max-width:28cqw}}
</style>"""
