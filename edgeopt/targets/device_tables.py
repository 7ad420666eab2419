"""Tables of devices, checked: `[devices.NAME]` in TOML files, and entries in variables."""

import dataclasses
import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import parse_qsl, urlsplit

from edgeopt.core.device import DeviceEntry, Kind
from edgeopt.errors import ConfigError
from edgeopt.targets.profiles import list_profiles, search_path

KEYS = tuple(
    field.name for field in dataclasses.fields(DeviceEntry) if field.name not in {"name", "origin"}
)
SCOPES = ("board", "module", "package", "wall")
_PROVIDER = re.compile(r"[A-Z]\w*ExecutionProvider")
_PROVIDERS = ("CPU", "CUDA", "Tensorrt", "OpenVINO", "XNNPACK", "ACL", "QNN", "NNAPI", "CoreML")


def read_table(path: Path) -> Mapping[str, Any]:
    """The table `devices` of a file; empty where there is no file or no such table.

    Raises:
        ConfigError: The file cannot be read, is no TOML, or `devices` is no table.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors of Windows
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"the file cannot be read: {error}", where=str(path), hint="see docs/devices.md"
        ) from error
    table = document.get("devices", {})
    if not isinstance(table, dict):
        raise ConfigError(
            "devices is not a table", where=str(path), hint="write [devices.NAME] above the keys"
        )
    return cast("dict[str, Any]", table)


def entry_from(
    name: str, value: object, *, origin: str, folder: Path, project: Path | None = None
) -> DeviceEntry:
    """The entry that a table says.

    Args:
        name: Of the device.
        value: What the file says under it.
        origin: File or variable, for messages.
        folder: What a relative path of a recording is relative to.
        project: Whose own hardware profiles may be named too.

    Raises:
        ConfigError: An unknown key, a value of another type, or one that cannot be.
    """
    wrong = _Wrong(name, origin)
    if not isinstance(value, dict):
        raise wrong("", "is not a table", f"write [devices.{name}] above the keys")
    table = cast("dict[str, Any]", value)
    for key, given in table.items():
        _check_key(key, given, wrong)
    _check_values(table, project, wrong)
    entry = DeviceEntry(name=name, origin=origin, **table)
    if entry.kind == "replay":
        return dataclasses.replace(entry, recording=str(folder / entry.recording))
    return entry


def entry_from_variable(name: str, text: str, *, origin: str, folder: Path) -> DeviceEntry:
    """The entry of an environment variable: `ssh://user@host:22?python=...`, or a table.

    Raises:
        ConfigError: It is neither, or says something that cannot be.
    """
    text = text.strip()
    value = _inline(text, name, origin) if text.startswith("{") else _url(text, name, origin)
    return entry_from(name, value, origin=origin, folder=folder, project=folder)


def _inline(text: str, name: str, origin: str) -> object:
    """JSON, or an inline table of TOML: both are written with braces."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise _Wrong(name, origin)(
            "", f"is neither JSON nor a TOML table: {error}", '{"host": "user@board"}'
        ) from error


def _url(text: str, name: str, origin: str) -> dict[str, str]:
    parts = urlsplit(text)
    if parts.scheme not in {"ssh", "local"} or parts.path not in {"", "/"} or parts.fragment:
        raise _Wrong(name, origin)(
            "",
            f"is {text!r}",
            "write ssh://user@host:22?python=/venv/bin/python&profile=NAME, or a JSON object",
        )
    found = dict(parse_qsl(parts.query, keep_blank_values=True))
    found["kind"] = parts.scheme
    if parts.scheme == "ssh" and parts.netloc:
        # Only the URL form of ssh takes a port; the plain form also matches the user's config.
        found["host"] = f"ssh://{parts.netloc}" if _has_port(parts.netloc) else parts.netloc
    return found


def _has_port(netloc: str) -> bool:
    return netloc.rpartition("@")[2].rpartition("]")[2].count(":") == 1


class _Wrong:
    """Makes the error of one key of one entry."""

    def __init__(self, name: str, origin: str) -> None:
        self._name = name
        self._origin = origin

    def __call__(self, key: str, what: str, hint: str) -> ConfigError:
        path = ".".join(part for part in ("devices", self._name, key) if part)
        return ConfigError(f"{path} {what}", where=self._origin, hint=hint)


def _check_key(key: str, given: object, wrong: _Wrong) -> None:
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(KEYS)}"
        raise wrong(key, "is not a key of a device", hint)
    if key == "environment":
        table = cast("dict[str, Any]", given)
        if not isinstance(given, dict) or not all(isinstance(v, str) for v in table.values()):
            raise wrong(key, "is not a table of texts", 'write environment = { NAME = "value" }')
    elif not isinstance(given, str):
        raise wrong(key, "is not a text", f'it is {given!r}; write {key} = "…"')
    elif "\n" in given or "\0" in given:
        raise wrong(key, "has more than one line", "one command, one line")


def _check_values(table: Mapping[str, Any], project: Path | None, wrong: _Wrong) -> None:
    kinds = get_args(Kind)
    if table.get("kind", "ssh") not in kinds:
        raise wrong("kind", f"is {table['kind']!r}", f"one of {', '.join(kinds)}")
    if table.get("meter_scope", "board") not in SCOPES:
        raise wrong("meter_scope", f"is {table['meter_scope']!r}", f"one of {', '.join(SCOPES)}")
    host = table.get("host", "")
    if host.startswith("-") or any(letter.isspace() for letter in host):
        raise wrong("host", f"is {host!r}", "a host name, user@host, or ssh://user@host:port")
    if table.get("python") and table.get("exec"):
        raise wrong("exec", "and python are both given", "exec is the whole command; drop python")
    if table.get("kind") == "replay" and not table.get("recording"):
        raise wrong("recording", "is missing", "a replay device needs the file it answers from")
    _check_profile(table.get("profile", ""), project, wrong)
    _check_provider(table.get("provider", ""), wrong)


def _check_profile(profile: str, project: Path | None, wrong: _Wrong) -> None:
    names = list_profiles(search_path(project))
    if profile and profile not in names:
        near = difflib.get_close_matches(profile, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"available: {', '.join(names)}"
        raise wrong("profile", f"names {profile!r}, and there is no such hardware profile", hint)


def _check_provider(provider: str, wrong: _Wrong) -> None:
    if provider and not _PROVIDER.fullmatch(provider):
        known = [f"{name}ExecutionProvider" for name in _PROVIDERS]
        whole = difflib.get_close_matches(provider.lower(), [name.lower() for name in known], n=1)
        short = [name for name in known if name.lower().startswith(provider.lower())]
        near = [name for name in known if whole and name.lower() == whole[0]] or short
        hint = f"did you mean {near[0]!r}?" if near else "such as CUDAExecutionProvider"
        raise wrong("provider", f"is {provider!r}, no execution provider", hint)
