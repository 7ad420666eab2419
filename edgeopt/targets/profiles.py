"""Hardware profiles: TOML files to `DeviceProfile`, and which one fits a device."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from edgeopt import shipped
from edgeopt.core.profile import DeviceProfile
from edgeopt.errors import ConfigError
from edgeopt.targets import profile_match, profile_schema


def search_path(project: Path | None = None) -> tuple[Path, ...]:
    """Folders that hold profiles, the first wins: the project's own, then what ships."""
    own = () if project is None else (project / "hardware_profiles",)
    return (*own, shipped.folder("hardware_profiles"))


def list_profiles(folders: Sequence[Path] | None = None) -> tuple[str, ...]:
    """Names of all profiles in the folders, sorted; nothing is read."""
    places = search_path() if folders is None else folders
    return tuple(sorted({path.stem for folder in places for path in folder.glob("*.toml")}))


def load_profile(name: str, folders: Sequence[Path] | None = None) -> DeviceProfile:
    """The profile of that name or alias, from the first folder that has it.

    Raises:
        ConfigError: There is none, or its file says something that cannot be.
    """
    places = search_path() if folders is None else tuple(folders)
    for candidate in (name, *_names_of_alias(name, places)):
        for folder in places:
            path = folder / f"{candidate}.toml"
            if path.is_file():
                return read_profile(path, places)
    raise _unknown(name, places, "")


def read_profile(path: Path, folders: Sequence[Path] | None = None) -> DeviceProfile:
    """The profile that a file says, together with what it extends.

    Raises:
        ConfigError: No TOML, an unknown key, a missing one, a value of another type or outside
            its range, a fact without a source, a name that is not the file's, or a base that is
            missing or extends the file itself.
    """
    places = search_path() if folders is None else tuple(folders)
    return profile_schema.build(_document(path, places, ()), path)


def match_profile(facts: Mapping[str, Any], folders: Sequence[Path] | None = None) -> DeviceProfile:
    """The profile of a device by what its agent's `probe` found.

    The module's id decides, then the device tree, the model text, the system on chip, the
    processor's parts, the operating system, and last the instruction-set features. Of an unknown
    board with a known system on chip, the most careful profile, which says so in its traps. Where
    nothing fits, a profile that offers no integer types. The ceiling of operator sets is that of
    the device's own runtime where this is lower.

    Raises:
        ConfigError: A profile's file is wrong.
    """
    found = profile_match.choose(_all(folders), facts)
    return profile_match.fitted(_unrecognised(facts) if found is None else found.profile, facts)


def fit_profile(profile: DeviceProfile, facts: Mapping[str, Any]) -> DeviceProfile:
    """A profile that the user chose, for one device: see `profile_match.fitted`."""
    return profile_match.fitted(profile, facts)


def disagreement(
    profile: DeviceProfile, facts: Mapping[str, Any], folders: Sequence[Path] | None = None
) -> str:
    """A warning where the device says it is something else than the profile; else empty.

    Raises:
        ConfigError: A profile's file is wrong.
    """
    return profile_match.contradiction(profile, facts, profile_match.choose(_all(folders), facts))


def _all(folders: Sequence[Path] | None) -> list[tuple[int, DeviceProfile]]:
    """Every profile with the position of its folder."""
    places = search_path() if folders is None else tuple(folders)
    found: list[tuple[int, DeviceProfile]] = []
    for name in list_profiles(places):
        position = next(i for i, folder in enumerate(places) if (folder / f"{name}.toml").is_file())
        found.append((position, read_profile(places[position] / f"{name}.toml", places)))
    return found


def _unrecognised(facts: Mapping[str, Any]) -> DeviceProfile:
    architecture = str(facts.get("architecture"))
    return DeviceProfile(
        name=f"unknown-{architecture}",
        title=f"{architecture}, kind unknown",
        architecture=architecture,
        traps=("No hardware profile fits this device: integer types are not offered.",),
    )


def _document(path: Path, places: Sequence[Path], below: tuple[Path, ...]) -> dict[str, Any]:
    """A file's document over that of its base; each file's facts have their sources in it."""
    document = _toml(path)
    profile_schema.check(document, path)
    if document.get("name", path.stem) != path.stem:
        raise ConfigError(
            f"name is {document['name']!r}",
            where=str(path),
            hint=f"the file's name is {path.stem!r}",
        )
    if "extends" not in document:
        return document
    base = _base(document.pop("extends"), path, places)
    line = (*below, path)
    if base in line:
        names = " -> ".join(each.stem for each in (*line[line.index(base) :], base))
        raise ConfigError(
            f"extends goes in a circle: {names}", where=str(path), hint="break it in one file"
        )
    inherited = _document(base, places, line)
    inherited.pop("aliases", None)
    return _merged(inherited, document)


def _base(name: object, path: Path, places: Sequence[Path]) -> Path:
    """The file that `extends` names: one of its own name is looked for behind its own folder."""
    if not isinstance(name, str):
        raise ConfigError(
            "extends is not a text", where=str(path), hint='write extends = "jetson-orin-nano"'
        )
    for folder in places:
        candidate = folder / f"{name}.toml"
        if candidate.is_file() and candidate.resolve() != path.resolve():
            return candidate
        if candidate.is_file() and folder == places[-1]:
            return path
    raise _unknown(name, places, str(path))


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key, everything else is replaced."""
    result = dict(base)
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            tables = cast("tuple[dict[str, Any], dict[str, Any]]", (result[key], value))
            result[key] = _merged(*tables)
        else:
            result[key] = value
    return result


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"the hardware profile cannot be read: {error}", where=str(path), hint="mend the file"
        ) from error


def _names_of_alias(alias: str, places: Sequence[Path]) -> list[str]:
    """Names of the profiles that go by an alias; files that cannot be read are no candidates."""
    found: list[str] = []
    for folder in places:
        for path in sorted(folder.glob("*.toml")):
            try:
                aliases: Any = _toml(path).get("aliases", ())
            except ConfigError:
                continue
            if isinstance(aliases, list) and alias in aliases:
                found.append(path.stem)
    return found


def _unknown(name: str, places: Sequence[Path], where: str) -> ConfigError:
    names = list_profiles(places)
    near = difflib.get_close_matches(name, names, n=1)
    return ConfigError(
        f"there is no hardware profile called {name!r}",
        where=where,
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"available: {', '.join(names)}",
    )
