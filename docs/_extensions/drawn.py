"""Runs the code of a page while it is built, and shows what the code makes beside it.

    ```{drawn} scatter.svg
    :alt: what the figure shows
    figure = scatter(explanation)
    ```

The code of one page runs in one namespace, from the top of the repository. With a file name, the
variable ``figure`` is saved under that name and shown; without one, the code is only run. ``{live}
NAME.html`` saves ``explanation.to_html`` and embeds the page.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "_generated"


class Drawn(SphinxDirective):
    """Code, run, and the figure it draws."""

    has_content = True
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Runs the code; an error in it stops the build with the page and the line."""
        code = "\n".join(self.content)
        names = self.env.temp_data.setdefault("drawn", {})
        names.pop("figure", None)
        try:
            with chdir(ROOT), _without_chatter():
                exec(compile(code, f"{self.env.docname}:{self.lineno}", "exec"), names)
        except Exception as error:
            raise self.error(
                f"the code of this block failed: {type(error).__name__}: {error}"
            ) from error
        shown: list[nodes.Node] = [nodes.literal_block(code, code, language="python")]
        if self.arguments:
            shown.append(self._figure(names, self.arguments[0]))
        return shown

    def _figure(self, names: dict[str, Any], file: str) -> nodes.Node:
        from slalom_xai.reports.figures import save

        if "figure" not in names or "alt" not in self.options:
            raise self.error(
                "a block with a file name needs code that sets figure, and the option alt"
            )
        save(names["figure"], GENERATED / file)
        return nodes.image(uri=f"/_generated/{file}", alt=self.options["alt"], classes=["drawn"])


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Some libraries log every step where a build listens to all of them."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


class Live(SphinxDirective):
    """The interactive view of ``explanation``, in a frame."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "title": directives.unchanged_required,
        "height": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        """Writes the page; the theme copies it beside the style sheets."""
        explanation = self.env.temp_data.get("drawn", {}).get("explanation")
        if explanation is None:
            raise self.error("the code above must set explanation")
        explanation.to_html(GENERATED / self.arguments[0])
        height, title = (
            self.options.get("height", 640),
            self.options.get("title", "An interactive explanation"),
        )
        source = f"_static/{self.arguments[0]}"
        frame = (
            f'<iframe class="live" src="{source}" title="{title}" height="{height}" '
            'loading="lazy"></iframe>'
        )
        link = f'<p class="live-link"><a href="{source}">Open it on a page of its own</a></p>'
        return [nodes.raw("", frame + link, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers both directives."""
    GENERATED.mkdir(exist_ok=True)
    app.add_directive("drawn", Drawn)
    app.add_directive("live", Live)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
