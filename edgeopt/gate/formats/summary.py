"""GitHub's job summary: the Markdown page within 1 MiB, beyond which nothing at all is shown."""

from edgeopt.gate.formats.markdown import page
from edgeopt.gate.verdicts import Verdicts, clipped

LIMIT = 1024 * 1024
_REST = "… the rest did not fit; see `edgeopt gate check --format json`"


def render(verdicts: Verdicts) -> str:
    """The whole page, cut at the limit."""
    return clipped(page(verdicts), LIMIT, _REST)


PLUGIN = render
