"""The documentation site: Sphinx with MyST and furo. It is built without network and is read without it, too."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util import logging

import mimogc

logger = logging.getLogger(__name__)

project = "mimogc"
author = "The mimogc developers"
project_copyright = author
version = release = mimogc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
smartquotes_action = "qe"  # quotes and ellipses; `--option` keeps its hyphens

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]

# The reference is what the docstrings say. In them, `single` quotes name things of this package or of another.
default_role = "py:obj"
autosummary_generate = False
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "exclude-members": "reset_parameters, extra_repr, message",  # the same everywhere
}
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True

# Names of this package must lead somewhere. Those of others cannot be looked up without network.
nitpick_ignore_regex = [(r"py:.*", r"(?!mimogc\.).*")]
# In a signature, and no public name: how a rank keeps its exchange of rows.
nitpick_ignore = [("py:class", "mimogc.distributed.halo.Halo")]


def _inline_math(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _display_math(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, as_block: bool) -> str:
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("formula: %s", error, location=node)
        return node.astext()


def _read_sections(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    # Napoleon as an extension would take "[E] int32: the source of each edge" for a type and a description.
    if what not in ("attribute", "property", "data"):
        config = Config(napoleon_custom_sections=["Shapes"])
        lines[:] = GoogleDocstring(lines, config, app, what, name, obj, options).lines()


def _show_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == "examples":
        for path in sorted((app.srcdir.parent / "examples").glob("*.py")):
            title = path.stem.replace("_", " ").capitalize()
            source[0] += f"\n## {title}\n\n```{{literalinclude}} ../examples/{path.name}\n```\n"
            source[0] += f"\nprints\n\n```{{literalinclude}} outputs/{path.stem}.txt\n:language: text\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", _show_examples)
    app.connect("autodoc-process-docstring", _read_sections)
    # MathML is drawn by the browser itself; MathJax would have to be fetched from a server.
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
