"""Vega as one script that a page can hold, from vl-convert; nothing is fetched.

Putting it together takes seconds, so the result is kept in the user's cache, by version.
"""

import os
from functools import cache
from importlib.metadata import version
from pathlib import Path


@cache
def vega_script() -> str | None:
    """Vega, Vega-Lite and Vega-Embed; None where vl-convert (the extra `report`) is missing."""
    try:
        import vl_convert
    except ImportError:
        return None
    kept = kept_script()
    try:
        return kept.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        made = str(vl_convert.javascript_bundle(None))  # pyright: ignore[reportArgumentType]
    _keep(kept, made)
    return made


def kept_script() -> Path:
    """Where the script of the installed vl-convert is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "edgeopt" / "vega" / f"vl-convert-{version('vl-convert-python')}.js"


def _keep(path: Path, text: str) -> None:
    """Written aside and renamed. A cache that cannot be written costs time, nothing else."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8", newline="\n")
        aside.replace(path)
    except OSError:
        return
