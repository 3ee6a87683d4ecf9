"""Citations from the package's own table of sources: the role `{source}` and the directive `{sources}`.

`` {source}`thakur2005` `` becomes a link to the entry that `{sources}` writes in the bibliography; a key that the
table does not have is a warning, and the build turns warnings into errors.
"""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.nodes import make_refnode

from aiinfra.tables import sources
from aiinfra.units import nearest

BIBLIOGRAPHY = "book/bibliography"


def anchor(key):
    """Id of a source's entry in the bibliography."""
    return f"source-{nodes.make_id(key)}"


class SourceRole(SphinxRole):
    """A citation: author and year, linked to the bibliography."""

    def run(self):
        source = sources().get(self.text)
        if source is None:
            message = f"source {self.text!r} is not in data/sources.toml; {nearest(self.text, sources())}"
            return [], [self.inliner.reporter.warning(message, line=self.lineno)]
        text = nodes.inline("", f"[{source.author}, {source.date[:4]}]", classes=["source"])
        docname, target = self.env.docname, anchor(source.key)
        return [make_refnode(self.env.app.builder, docname, BIBLIOGRAPHY, target, text, source.title)], []


class SourcesDirective(SphinxDirective):
    """All sources, by author and date."""

    def run(self):
        entries = nodes.bullet_list()
        for source in sorted(sources().values(), key=lambda entry: (entry.author.lower(), entry.date)):
            link = nodes.reference("", source.title, refuri=source.url)
            paragraph = nodes.paragraph("", f"{source.author} ({source.date}). ")
            paragraph += [link, nodes.Text(f". {source.kind.capitalize()}; key "), nodes.literal("", source.key)]
            entries += nodes.list_item("", paragraph, ids=[anchor(source.key)])
        return [entries]


def setup(app):
    app.add_role("source", SourceRole())
    app.add_directive("sources", SourcesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
