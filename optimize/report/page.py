"""One self-contained HTML page: escaped text, tables and figures, readable on a phone and in print.

Nothing on the page leaves it: no script, no font, no image from elsewhere.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from html import escape

CONTENTS = "<!-- contents -->"
# Names up to so long stay on one line; beyond so long they are sentences.
SHORT, LONG = 22, 40
STYLE = """
:root{--ink:#1c2127;--soft:#5b6570;--faint:#aab4be;--line:#dde3e8;--paper:#fff;--panel:#f5f7f9;
--accent:#1f6feb;--second:#c2620a;--plus:#d9f2df;--minus:#fbe0dd;color-scheme:light dark}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#a3adb8;--faint:#5d6873;
--line:#323a43;--paper:#15191e;--panel:#1d232a;--accent:#6aa6ff;--second:#f0a35e;--plus:#143d22;
--minus:#4a1f1c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.2rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0}
h2{font-size:1.15rem;margin:2.2rem 0 .5rem;border-top:1px solid var(--line);padding-top:1rem}
h3{font-size:1rem;margin:1.4rem 0 .3rem}
p{margin:.4rem 0 .8rem;max-width:46rem}
.soft{color:var(--soft);font-size:.92rem}
.label{color:var(--soft);font-size:.8rem;margin:.6rem 0 0}
.verdict{background:var(--panel);border-left:4px solid var(--accent);padding:.7rem 1rem;
margin:1rem 0}
.verdict p{margin:.25rem 0;max-width:none}
.verdict p:first-child{font-weight:600;font-size:1.08rem}
.verdict code{font-size:.9rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.6rem;
margin:1rem 0}
.tiles div{border:1px solid var(--line);border-radius:.4rem;padding:.55rem .75rem}
.tiles b{display:block;font-size:1.5rem;line-height:1.25;font-variant-numeric:tabular-nums}
.tiles span{display:block;color:var(--soft);font-size:.82rem}
nav{font-size:.88rem;line-height:1.8;margin:1rem 0 0}
nav a{color:var(--accent);text-decoration:none;margin-right:.9rem;white-space:nowrap}
ul{margin:.4rem 0 .8rem;padding-left:1.2rem;max-width:46rem}
li{margin:.35rem 0}
li code{white-space:nowrap;background:var(--panel);padding:0 .2rem;font-size:.88em}
.wide{overflow-x:auto;margin:.4rem 0 1rem}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));
gap:0 1.5rem}
table{border-collapse:collapse;overflow-wrap:normal;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.28rem .7rem .28rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
td.number,th.number{text-align:right}
.number,.short{white-space:nowrap}
td.long{min-width:15rem}
.caption{color:var(--soft);font-size:.88rem;margin:1rem 0 .2rem}
figure{margin:.6rem 0 1.2rem}
figure svg{width:100%;height:auto;max-width:33rem;display:block}
figcaption{color:var(--soft);font-size:.88rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--panel);padding:.7rem;
margin:.4rem 0;font-size:.85rem}
ins{background:var(--plus);text-decoration:none}del{background:var(--minus)}
details{border-bottom:1px solid var(--line);padding:.3rem 0}
details details{margin-left:.8rem}
summary{cursor:pointer}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;font-size:.92rem}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
@media (max-width:30rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}body{padding:.8rem}}
@media print{:root{--ink:#000;font-size:80%}body{max-width:none;padding:0}nav{display:none}
.beside{grid-template-columns:1fr 1fr}
figure,tr{break-inside:avoid}h2,h3{break-after:avoid}
#worst-disagreements ::details-content{content-visibility:visible}}
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Put finished parts (already HTML) under a title."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # No request leaves the page, whatever a text in it says.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + _filled("\n".join(parts))
        + "\n</body></html>\n"
    )


def heading(text: str, level: int = 2) -> str:
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table whose cells are text; columns after the first that look numeric are right-aligned."""
    body = [list(row) for row in rows]
    kinds = [_kind(column, [row[column] for row in body]) for column in range(len(head))]

    def line(cells: Sequence[str], tag: str) -> str:
        marked = (f'<{tag} class="{kind}">' if kind else f"<{tag}>" for kind in kinds)
        return "".join(
            f"{opened}{escape(cell)}</{tag}>" for opened, cell in zip(marked, cells, strict=True)
        )

    # No <caption>: on a phone it would be as wide as the table, and scroll with it.
    told = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    name = escape(caption or ", ".join(word for word in head if word))
    lines = "".join(f"<tr>{line(row, 'td')}</tr>" for row in body)
    return (
        f'{told}<div class="wide" role="region" aria-label="{name}" tabindex="0">'
        f"<table><thead><tr>{line(head, 'th')}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def _kind(column: int, cells: Sequence[str]) -> str:
    """How a column is set: numbers to the right, names on one line, sentences not too narrow."""
    if column > 0 and all(map(_numeric, cells)):
        return "number"
    longest = max(map(len, cells), default=0)
    return "short" if longest <= SHORT else "long" if longest > LONG else ""


def _numeric(cell: str) -> bool:
    return cell in ("", "undefined", "no interval") or cell[0] in "-+−0123456789.[–"


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def beside(columns: Sequence[str]) -> str:
    """Finished parts side by side where the window is wide enough."""
    inner = "".join(f"<div>{column}</div>" for column in columns)
    return f'<div class="beside">{inner}</div>'


def section(title: str, parts: Iterable[str]) -> str:
    """A part of the page that the list of contents leads to."""
    return f'<section id="{_anchor(title)}">{heading(title)}{"".join(parts)}</section>'


def contents() -> str:
    """Where the list of contents goes; `page` fills it from the sections."""
    return CONTENTS


def _anchor(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def _filled(body: str) -> str:
    titles = re.findall(r'<section id="([a-z0-9-]+)"><h2>([^<]*)</h2>', body)
    links = " ".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in titles)
    return body.replace(CONTENTS, f'<nav aria-label="Contents">{links}</nav>', 1)


def verdict(sentence: str, quotable: Sequence[str], why: str) -> str:
    """What the whole comes to: a sentence, lines to quote, and the reason."""
    told = [f"<p>{escape(sentence)}</p>"] if sentence else []
    told += [f"<p><code>{escape(line)}</code></p>" for line in quotable]
    told += [f"<p>{escape(why)}</p>"] if why else []
    return f'<div class="verdict">{"".join(told)}</div>'


def tiles(figures: Iterable[tuple[str, str, str]]) -> str:
    """A few figures to see first: name, value, and its interval."""
    inner = "".join(
        f"<div><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(around)}</span></div>"
        for name, value, around in figures
    )
    return f'<div class="tiles">{inner}</div>'


def listed(sentences: Iterable[str]) -> str:
    """Sentences as a list; what stands between backticks is code."""
    return f"<ul>{''.join(f'<li>{_coded(one)}</li>' for one in sentences)}</ul>"


def _coded(sentence: str) -> str:
    pieces = escape(sentence).split("`")
    if len(pieces) % 2 == 0:
        return "`".join(pieces)
    return "".join(f"<code>{one}</code>" if i % 2 else one for i, one in enumerate(pieces))


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    inner = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{inner}</dl>"


def folded(summary: str, parts: Iterable[str], name: str = "") -> str:
    """Parts that open on demand, under a summary and, fainter, a name."""
    told = f' <span class="soft">{escape(name)}</span>' if name else ""
    return f"<details><summary>{escape(summary)}{told}</summary>{''.join(parts)}</details>"


def block(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def difference(before: str, after: str) -> str:
    """Word by word: what was deleted from `before` and inserted to make `after`."""
    old, new = before.split(" "), after.split(" ")
    pieces = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        gone, come = escape(" ".join(old[i1:i2])), escape(" ".join(new[j1:j2]))
        if tag == "equal":
            pieces.append(gone)
            continue
        pieces += [f"<del>{gone}</del>"] * bool(gone) + [f"<ins>{come}</ins>"] * bool(come)
    return f"<pre>{' '.join(pieces)}</pre>"
