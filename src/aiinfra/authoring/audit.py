"""The audit page: claims of the source documents as HTML that reads well on a phone and in the dark.

A page shows STYLE once as HTML, and all else as Markdown: of HTML output, the theme makes a light box in the dark,
and from Markdown output it drops styles.
"""

import re
from collections import Counter
from html import escape

from aiinfra.authoring.claims import VERDICTS, documents, mistakes, recompute
from aiinfra.tables import sources
from aiinfra.units import UNITS

STYLE = """<style>
.cell_output .text_html:has(> style) { display: none; }
.audit-claim { margin: 1.25rem 0; padding: 0 0 0 0.9rem; border-left: 0.25rem solid var(--pst-color-border); }
.audit-claim p { margin: 0 0 0.4rem; }
.audit-claim dl { display: grid; grid-template-columns: 8rem 1fr; gap: 0.2rem 1rem; margin: 0; }
.audit-claim dt, .audit-claim dd { margin: 0; font-size: 0.95em; }
.audit-claim dt { font-weight: 400; color: var(--pst-color-text-muted); }
.audit-who, .audit-sources { color: var(--pst-color-text-muted); font-size: 0.85em; }
.audit-all summary { cursor: pointer; padding: 0.5rem 0; }
.audit-table { width: 100%; border-collapse: collapse; font-size: 0.85em; }
.audit-table caption { text-align: start; color: var(--pst-color-text-muted); }
.audit-table th, .audit-table td { padding: 0.35rem 0.6rem 0.35rem 0; text-align: start; vertical-align: top;
  border-bottom: 1px solid var(--pst-color-border); overflow-wrap: break-word; }
.audit-all th:nth-child(3), .audit-all th:nth-child(4) { min-width: 6.5rem; }
.audit-table td:first-child { white-space: nowrap; }
@media (max-width: 40rem) {
  .audit-claim dl { grid-template-columns: 1fr; gap: 0; }
  .audit-claim dd { margin-bottom: 0.4rem; }
  .audit-table thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .audit-table tr { display: block; padding: 0.5rem 0; border-bottom: 1px solid var(--pst-color-border); }
  .audit-table td { display: block; padding: 0; border: 0; }
  .audit-table td:first-child { font-weight: 600; white-space: normal; }
  .audit-table td[data-name]::before { content: attr(data-name) ": "; color: var(--pst-color-text-muted); }
}
</style>"""


def printed(value, claim):
    """A recomputed value as text: with the digits of the claim's `correct`, or with up to five.

    >>> from types import SimpleNamespace as Claim
    >>> printed(989.4, Claim(unit="TFLOP/s", correct="")), printed(0.4366, Claim(unit="1", correct="0.44"))
    ('989.4 TFLOP/s', '0.44')
    """
    if value is None or isinstance(value, str):
        return value or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if claim.correct:
        number = f"{value:,.{len(claim.correct.partition('.')[2])}f}"
    else:
        number = f"{value:.5g}" if value < 1e5 else f"{value:,.0f}"
    return f"{number}{_unit(claim)}"


def stated(claim):
    """What the document prints, with its unit where it is a number."""
    return f"{claim.stated}{_unit(claim)}" if re.match(r"\d", claim.stated) else claim.stated


def _unit(claim):
    return "" if claim.unit == "year" or UNITS.get(claim.unit, ("text", 1))[0] == "text" else _UNIT.get(
        claim.unit, f" {claim.unit}"
    )  # fmt: skip


_UNIT = {"1": "", "B": " billion"}


def counts(claims):
    """Table of verdicts: how many claims have each, and how many of them the build has just recomputed."""
    all_of = Counter(claim.verdict for claim in claims)
    numbers = Counter(claim.verdict for claim in claims if claim.expression)
    rows = [(verdict, all_of[verdict], numbers[verdict], meaning) for verdict, meaning in VERDICTS.items()]
    rows.append(("all", len(claims), sum(numbers.values()), ""))
    named = [(("", row[0]), ("claims", str(row[1])), ("recomputed", str(row[2])), ("", row[3])) for row in rows]
    return _table("Claims by verdict", ("verdict", "claims", "recomputed", "what it means"), named)


def wrong(claims, root, mistake):
    """Every wrong claim of one kind: what was stated, what the catalogue gives, how to notice it, what it costs."""
    who = documents(root)
    question = escape(mistakes(root)[mistake]["ask"])
    found = [claim for claim in claims if claim.verdict == "wrong" and claim.mistake == mistake]
    return f"<p><strong>Ask:</strong> {question}</p>" + "".join(_wrong(claim, who) for claim in found)


def _wrong(claim, who):
    rows = [("stated", escape(stated(claim)))] if claim.stated else []
    if claim.expression:
        value = recompute(claim).value
        rows.append(("recomputed", escape(printed(value, claim)) + _times(claim, value)))
    rows += [("what is right", escape(claim.correction) + _sources(claim))]
    rows += [("how to notice", escape(claim.notice)), ("what it costs", escape(claim.cost))]
    items = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
    said = f"{escape(claim.claim)} <span class='audit-who'>{escape(who[claim.document]['short'])}</span>"
    return f"<div class='audit-claim' id='{claim.id}'><p>{said}</p><dl>{items}</dl></div>"


def _times(claim, value):
    """How many times too large or too small the stated number is, where both are amounts."""
    if claim.unit in ("year", "text") or not isinstance(value, float) or not value:
        return ""
    if not re.fullmatch(r"[\d.,]+", claim.stated):
        return ""
    ratio = float(claim.stated.replace(",", "")) / value
    size = f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
    return f"; stated is {size} times that" if abs(ratio - 1) >= 0.05 else f"; stated is {abs(1 - ratio):.1%} off"


def _sources(claim):
    """Links to the bibliography: the sources of every number that was read, and those that the row names."""
    keys = dict.fromkeys([row.source_key for row in recompute(claim).numbers] if claim.expression else [])
    keys |= dict.fromkeys(claim.sources.split())
    links = [
        f"<a href='bibliography.html#{anchor(key)}' title='{escape(sources()[key].title, quote=True)}'>"
        f"{escape(sources()[key].author)}, {sources()[key].date[:4]}</a>"
        for key in keys
    ]
    return f" <span class='audit-sources'>[{'; '.join(links)}]</span>" if links else ""


def anchor(key):
    """Id of a source's entry in the bibliography."""
    return "source-" + re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")


def disagreements(claims, root):
    """Subjects of which documents print different numbers: a table, with what the catalogue gives."""
    who = documents(root)
    subjects: dict[str, list] = {}
    for claim in claims:
        if claim.subject and claim.expression:
            subjects.setdefault(claim.subject, []).append(claim)
    rows = []
    for subject, members in subjects.items():
        if len({_comparable(claim.stated) for claim in members}) > 1:
            said = "<br>".join(
                f"{escape(stated(c))} <span class='audit-who'>{who[c.document]['short']}</span>" for c in members
            )
            value = printed(recompute(members[0]).value, members[0])
            rows.append((("", escape(subject)), ("printed", said), ("recomputed", escape(value))))
    return _table("Numbers that the documents print differently", ("subject", "printed", "recomputed"), rows)


def _comparable(text):
    return float(text.replace(",", "")) if re.fullmatch(r"[\d.,]+", text) else text


def everything(claims, root, document):
    """Every claim of one document, in a table that is folded away."""
    title = documents(root)[document]["title"]
    own = [claim for claim in claims if claim.document == document]
    rows = []
    for claim in own:
        value = printed(recompute(claim).value, claim) if claim.expression else ""
        remark = escape(" ".join(text for text in (claim.correction, claim.reason) if text)) + _sources(claim)
        cells = (("", claim.verdict), ("", escape(claim.claim)), ("stated", escape(stated(claim))))
        rows.append((*cells, ("recomputed", escape(value)), ("", remark)))
    table = _table(escape(title), ("verdict", "claim", "stated", "recomputed", "remark and sources"), rows)
    return f"<details class='audit-all'><summary>{escape(title)}: {len(own)} claims</summary>{table}</details>"


def _table(caption, head, rows):
    """An HTML table of (name, cell) pairs; a phone shows the cells under each other, each after its name."""
    heads = "".join(f"<th scope='col'>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(_cell(name, cell) for name, cell in row) + "</tr>" for row in rows)
    return (
        f"<table class='audit-table'><caption>{caption}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _cell(name, cell):
    return f"<td data-name='{name}'>{cell}</td>" if name and cell else f"<td>{cell}</td>"
