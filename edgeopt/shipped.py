"""Folders of data that ship with edgeopt: hardware_profiles/ and models/.

In a checkout and in an editable install they stand beside the package, in an installed wheel
inside it.
"""

from pathlib import Path

from edgeopt.errors import EdgeOptError


def folder(name: str) -> Path:
    """Where a shipped folder lies.

    Raises:
        EdgeOptError: It is not there: the installation is damaged.
    """
    package = Path(__file__).parent
    for place in (package / "_shipped" / name, package.parent / name):
        if place.is_dir():
            return place
    raise EdgeOptError(
        f"the folder {name} that ships with edgeopt is missing",
        where=str(package),
        hint="install edgeopt again",
    )
