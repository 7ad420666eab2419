"""Hardware profiles: TOML files to `DeviceProfile`, and which one fits a device."""

import difflib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, cast

from edgeopt import shipped
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.errors import ConfigError

_INTEGERS = ("uint8", "int8")


def search_path(project: Path | None = None) -> tuple[Path, ...]:
    """Folders that hold profiles, the first wins: the project's own, then what ships."""
    own = () if project is None else (project / "hardware_profiles",)
    return (*own, shipped.folder("hardware_profiles"))


def list_profiles(folders: Sequence[Path] | None = None) -> tuple[str, ...]:
    """Names of all profiles in the folders, sorted; nothing is read."""
    places = search_path() if folders is None else folders
    return tuple(sorted({path.stem for folder in places for path in folder.glob("*.toml")}))


def load_profile(name: str, folders: Sequence[Path] | None = None) -> DeviceProfile:
    """The profile of that name, from the first folder that has it.

    Raises:
        ConfigError: There is none, or its file says something that cannot be.
    """
    places = search_path() if folders is None else folders
    for folder in places:
        path = folder / f"{name}.toml"
        if path.is_file():
            return read_profile(path)
    names = list_profiles(places)
    near = difflib.get_close_matches(name, names, n=1)
    raise ConfigError(
        f"there is no hardware profile called {name!r}",
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"available: {', '.join(names)}",
    )


def read_profile(path: Path) -> DeviceProfile:
    """The profile that a file says.

    Raises:
        ConfigError: No TOML, an unknown key, a missing one, a value of another type, or a name
            that is not the file's.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"the hardware profile cannot be read: {error}", where=str(path), hint="mend the file"
        ) from error
    values = _checked(DeviceProfile, document, path, "")
    types_table = document.get("quantization")
    if types_table is not None:
        found = _checked(QuantizationTypes, types_table, path, "quantization.")
        for key in ("activation", "weight"):
            if found.get(key, "int8") not in _INTEGERS:
                raise _wrong(path, f"quantization.{key}", "is neither uint8 nor int8", "")
        values["quantization"] = QuantizationTypes(**found)
    profile = DeviceProfile(**values)
    if profile.name != path.stem:
        raise _wrong(path, "name", f"is {profile.name!r}", f"the file's name is {path.stem!r}")
    return profile


def match_profile(probe: Mapping[str, Any], folders: Sequence[Path] | None = None) -> DeviceProfile:
    """The profile of a device by what its agent's `probe` found.

    Of the profiles of its architecture whose features the device all has: the one with the most
    features. Where none fits, a profile that offers no integer types.

    Raises:
        ConfigError: A profile's file is wrong.
    """
    architecture, features = str(probe["architecture"]), frozenset(probe["features"])
    fitting = [
        profile
        for profile in (load_profile(name, folders) for name in list_profiles(folders))
        if profile.architecture == architecture and features.issuperset(profile.features)
    ]
    if fitting:
        return max(fitting, key=lambda profile: (len(profile.features), profile.name))
    return DeviceProfile(
        name=f"unknown-{architecture}",
        title=f"{architecture}, kind unknown",
        architecture=architecture,
        traps=("no hardware profile fits this device: integer types are not offered",),
    )


def _checked(cls: Any, document: Any, path: Path, prefix: str) -> dict[str, Any]:
    """Keys and types of a table against the fields of a dataclass."""
    if not isinstance(document, dict):
        raise _wrong(path, prefix.rstrip("."), "is not a table", "")
    table = cast("dict[str, Any]", document)
    known: dict[str, Field[Any]] = {each.name: each for each in fields(cls)}
    hints = typing.get_type_hints(cls)
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
            raise _wrong(path, prefix + key, "is not a key of a hardware profile", hint)
    for key, each in known.items():
        if key not in table and each.default is MISSING and each.default_factory is MISSING:
            raise _wrong(path, prefix + key, "is missing", "hardware_profiles/README.md names it")
    return {key: _value(hints[key], value, path, prefix + key) for key, value in table.items()}


def _value(hint: Any, value: Any, path: Path, key: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        return value
    if origin is tuple:
        items = cast("list[Any]", value)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in items):
            raise _wrong(path, key, "is not a list of texts", f'write {key} = ["…"]')
        return tuple(items)
    if origin is not None:
        table = cast("dict[str, Any]", value)
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in table.values()):
            raise _wrong(path, key, "is not a table of texts", "")
        return table
    if type(value) is not hint:
        words = {str: "a text", int: "an integer", bool: "true or false"}
        raise _wrong(path, key, f"is not {words[hint]}", f"it is {value!r}")
    return value


def _wrong(path: Path, key: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"{key} {what}", where=str(path), hint=hint)
