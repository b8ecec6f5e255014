"""The look of the page: dark and light as the reader's system asks, and on paper."""

from __future__ import annotations

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Content-Security-Policy: no script, and nothing that is not in the page itself."""

STYLE = """
:root {
  color-scheme: light dark; font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif;
  --paper: #fff; --ink: #1b1f24; --faint: #5b6470; --line: #d5dae0; --panel: #f4f6f8;
  --low: #1d5fbf; --high: #a23b00; --limit: #b3001b; --good: #146c2e; --bad: #b3001b; --void: #6b6f76;
  --one: #1d5fbf; --two: #a23b00; --three: #14705f; --four: #7a3aa6; --doubt: #8a4b00;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --ink: #e6e9ec; --faint: #a3adb8; --line: #363d45; --panel: #1d2226;
    --low: #7db3ff; --high: #ffb27d; --limit: #ff8a8a; --good: #7fd99a; --bad: #ff8a8a; --void: #a3adb8;
    --one: #7db3ff; --two: #ffb27d; --three: #6fd6c0; --four: #d3a4f5; --doubt: #ffc266;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word; }
header, main, footer { max-width: 70rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.4rem); line-height: 1.2; margin: .2rem 0 .6rem; text-wrap: balance; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p { margin: .4rem 0; max-width: 60rem; }
a { color: var(--low); }
.kicker, .note, figcaption, caption, footer { color: var(--faint); font-size: .875rem; }
.banner { border-left: 4px solid var(--doubt); background: var(--panel); padding: .5rem .9rem; margin: .8rem 0; }
.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--low); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .925rem; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; }
th:first-child, .text { text-align: left; }
table + table, .scroll + .scroll, .scroll + .plots { margin-top: 1rem; }
table.pairs th { width: 16rem; }
table.data td, table.data th { white-space: nowrap; }
table.data td.text, table.data th.text { white-space: normal; }
table.data td.text:last-child { min-width: 9rem; }
table.data th.text:first-child { min-width: 7rem; }
tr.led > * { border-bottom: 0; padding-bottom: .1rem; }
table.data td.under { text-align: left; white-space: normal; padding-top: 0; }
td.under div { position: sticky; left: .6rem; max-width: min(60rem, calc(100vw - 4rem)); color: var(--faint); }
.ok { color: var(--good); } .doubtful { color: var(--doubt); } .bad { color: var(--bad); }
.state { font-weight: 600; white-space: nowrap; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1.2rem; }
figure { margin: 0; padding: .7rem; background: var(--panel); border-radius: 6px; min-width: 0; max-width: 35rem; }
figure h3 { margin: 0 0 .3rem; font-size: 1rem; }
figcaption { margin-top: .3rem; }
svg.plot { display: block; width: 100%; height: auto; }
svg.plot * { stroke-linejoin: round; stroke-linecap: butt; }
svg.plot text { font-family: inherit; }
details { margin: .4rem 0; }
summary { cursor: pointer; color: var(--low); font-size: .875rem; }
pre { background: var(--panel); padding: .6rem .9rem; border-radius: 6px; overflow-x: auto; white-space: pre-wrap; }
ul { padding-left: 1.2rem; } li { margin: .3rem 0; }
footer { margin-top: 2.5rem; padding-bottom: 2rem; border-top: 1px solid var(--line); padding-top: .8rem; }
@media (max-width: 40rem) {
  table { font-size: .85rem; } th, td { padding: .3rem .4rem; } table.pairs th { width: 8rem; }
  table.data th.text:first-child { min-width: 5rem; } table.data td.text:last-child { min-width: 6rem; }
  figure { padding: .5rem .3rem; } figure h3, figcaption, figure details { padding: 0 .3rem; }
}
@media print {
  :root { --paper: #fff; --ink: #000; --faint: #444; --line: #bbb; --panel: #fff; font-size: 11px; }
  figure, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .plots { grid-template-columns: 1fr 1fr; } summary { display: none; }
}
"""
