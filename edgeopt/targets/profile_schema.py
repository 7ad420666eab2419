"""What a hardware profile's file may say: keys, types, ranges, and a source for every fact."""

import difflib
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from edgeopt.core.profile import DeviceProfile
from edgeopt.errors import ConfigError

FEATURES = (
    *("sse4_1", "avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx_vnni", "vnni"),
    *("amx_int8", "neon", "fp16", "dotprod", "i8mm", "bf16", "sve"),
)
_ARCHITECTURES = ("x86_64", "aarch64")
# What a name says needs no source; everything else is a fact about hardware or software.
_NO_FACTS = frozenset({"name", "title", "architecture", "family", "aliases", "extends", "sources"})
# Lowest and highest sensible value by the key's last part, and its unit. The default of a key is
# always allowed: it says that the value is not known.
_RANGES: Mapping[str, tuple[float, float, str]] = {
    "channel_block": (1, 256, "channels"),
    "opset_ceiling": (7, 30, "an operator-set version"),
    "memory_bytes": (2**26, 2**41, "bytes"),
    "free_bytes": (2**20, 2**42, "bytes"),
    "free_memory_bytes": (2**20, 2**42, "bytes"),
    "cores": (1, 1024, "cores"),
    "max_mhz": (50, 10_000, "MHz"),
    "peak_gb_per_s": (0.5, 10_000, "GB/s"),
    "memcpy_mb_per_s": (50, 1_000_000, "MB/s"),
    "memset_mb_per_s": (50, 1_000_000, "MB/s"),
    "units": (1, 1_000_000, "units"),
    "fp16_tflops": (0.001, 100_000, "10^12 operations/s"),
    "int8_tops": (0.001, 100_000, "10^12 operations/s"),
    "watts_label": (0.5, 2000, "W"),
    "id_hint": (0, 99, "a mode's number"),
    "default": (0, 1024, "threads"),
    "candidates": (1, 1024, "threads"),
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "activation": ("uint8", "int8"),
    "weight": ("int8", "uint8"),
    "features": FEATURES,
    "isa": FEATURES,
    "throttle_counters": ("soctherm_oc", "vcgencmd"),
}
_PATTERNS: Mapping[str, tuple[str, str]] = {
    "providers": (r"\w+ExecutionProvider", "CPUExecutionProvider"),
    "float_only": (r"\w+ExecutionProvider", "CUDAExecutionProvider"),
    "float16": (r"\w+ExecutionProvider", "CUDAExecutionProvider"),
    "provider": (r"(\w+ExecutionProvider)?", "CUDAExecutionProvider"),
    "cpu_parts": (r"0x[0-9a-f]{2}:0x[0-9a-f]{3}", "0x41:0xd0b"),
    "part": (r"(0x[0-9a-f]{2}:0x[0-9a-f]{3})?", "0x41:0xd0b"),
    "module_ids": (r"p\d{4}-\d{4}", "p3767-0005"),
    "min": (r"(\d+\.\d+)?", "3.8"),
    "typical": (r"(\d+\.\d+)?", "3.10"),
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A value's place in a file, for messages."""

    path: Path
    key: str = ""

    def at(self, key: str) -> "_Place":
        return _Place(self.path, f"{self.key}.{key}" if self.key else key)

    @property
    def last(self) -> str:
        """The key's last part, without the number in a list."""
        return self.key.rpartition(".")[2].partition("[")[0]

    def wrong(self, what: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self.key} {what}".strip(), where=str(self.path), hint=hint)


def build(document: Mapping[str, Any], path: Path) -> DeviceProfile:
    """The profile that a whole document says; what it extends is already in it.

    Raises:
        ConfigError: An unknown key, a missing one, a value of another type or outside its range,
            or two keys that contradict each other.
    """
    found: DeviceProfile = _record(DeviceProfile, dict(document), _Place(path))
    _consistent(found, _Place(path))
    return found


def check(document: Mapping[str, Any], path: Path) -> None:
    """One file by itself, before it is laid over what it extends.

    Every fact has a source in the same file, and every source is one of a fact.

    Raises:
        ConfigError: A source is missing, or a key, type or range is wrong.
    """
    keys = {key: value for key, value in document.items() if key != "extends"}
    values = _values(DeviceProfile, keys, _Place(path))
    sources = values.get("sources", {})
    for key, value in keys.items():
        if key not in _NO_FACTS and value not in ([], {}, "") and not sources.get(key, "").strip():
            raise _Place(path, key).wrong(
                "has no source", f'write {key} = "where it comes from" in [sources]'
            )
    known = {each.name for each in fields(DeviceProfile)} - _NO_FACTS
    for key in sources:
        if key not in known:
            raise _Place(path, f"sources.{key}").wrong(
                "is not a key of a hardware profile", _nearest(key, known)
            )


def _record(cls: Any, value: Any, place: _Place) -> Any:
    """A table as a dataclass."""
    if not isinstance(value, dict):
        raise place.wrong("is not a table", f"write [{place.key}] and its keys below")
    table = cast("dict[str, Any]", value)
    found = _values(cls, table, place)
    for each in fields(cls):
        if each.name not in table and each.default is MISSING and each.default_factory is MISSING:
            raise place.at(each.name).wrong("is missing", "hardware_profiles/README.md names it")
    return cls(**found)


def _values(cls: Any, table: dict[str, Any], place: _Place) -> dict[str, Any]:
    """A table's values for a dataclass; keys may be missing."""
    known: dict[str, Field[Any]] = {each.name: each for each in fields(cls)}
    for key in table:
        if key not in known:
            raise place.at(key).wrong("is not a key of a hardware profile", _nearest(key, known))
    hints = _hints(cls)
    return {
        key: item
        if item == known[key].default and type(item) is type(known[key].default)
        else _value(hints[key], item, place.at(key))
        for key, item in table.items()
    }


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _value(hint: Any, value: Any, place: _Place) -> Any:
    """A value of the type that a field says."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return _value(arguments[0], value, place)
    if origin is tuple:
        return _list(arguments[0], value, place)
    if origin is Literal:
        return _choice(value, arguments, place)
    if origin is not None:
        return _table(arguments[1], value, place)
    if is_dataclass(hint):
        return _record(hint, value, place)
    return _plain(hint, value, place)


def _list(hint: Any, value: Any, place: _Place) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise place.wrong(*_unlike_list(hint, place))
    items = cast("list[Any]", value)
    if not is_dataclass(hint) and not all(type(item) is hint for item in items):
        raise place.wrong(*_unlike_list(hint, place))
    return tuple(
        _value(hint, item, _Place(place.path, f"{place.key}[{number}]"))
        for number, item in enumerate(items)
    )


def _unlike_list(hint: Any, place: _Place) -> tuple[str, str]:
    if is_dataclass(hint):
        return "is not a list of tables", f"write [[{place.key}]] before each"
    if hint is int:
        return "is not a list of integers", f"write {place.key} = [1, 2]"
    return "is not a list of texts", f'write {place.key} = ["…"]'


def _table(hint: Any, value: Any, place: _Place) -> dict[str, Any]:
    if not isinstance(value, dict):
        what = "is not a table of texts" if hint is str else "is not a table"
        raise place.wrong(what, f"write [{place.key}] and its keys below")
    table = cast("dict[str, Any]", value)
    if hint is str and not all(isinstance(item, str) for item in table.values()):
        raise place.wrong("is not a table of texts", 'write "…" around each value')
    return {key: _value(hint, item, place.at(key)) for key, item in table.items()}


def _plain(hint: Any, value: Any, place: _Place) -> Any:
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint:
        words = {
            str: "a text",
            int: "an integer",
            float: "a number",
            bool: "true or false",
        }
        raise place.wrong(f"is not {words[hint]}", f"it is {value!r}")
    if hint is str:
        return _text(value, place)
    if hint is not bool:
        _in_range(value, place)
    return value


def _text(value: str, place: _Place) -> str:
    if place.key.startswith(("sources.", "runtimes.", "provider_options.")):
        return value
    if place.last in _CHOICES:
        return _choice(value, _CHOICES[place.last], place)
    if place.last in _PATTERNS:
        pattern, example = _PATTERNS[place.last]
        if not re.fullmatch(pattern, value):
            raise place.wrong(f"is {value!r}", f"it is written like {example}")
    return value


def _choice(value: Any, choices: tuple[str, ...], place: _Place) -> str:
    if value in choices:
        return str(value)
    if len(choices) == 2:
        raise place.wrong(f"is neither {choices[0]} nor {choices[1]}", f"it is {value!r}")
    raise place.wrong(f"is {value!r}", _nearest(str(value), choices))


def _in_range(value: float, place: _Place) -> None:
    if place.last not in _RANGES:
        return
    low, high, unit = _RANGES[place.last]
    if not math.isfinite(value) or not low <= value <= high:
        raise place.wrong(f"is {value:g}", f"the unit is {unit}, from {low:g} to {high:g}")


def _consistent(profile: DeviceProfile, place: _Place) -> None:
    """The architecture is a known one, and names that refer to each other do."""
    _choice(profile.architecture, _ARCHITECTURES, place.at("architecture"))
    modes = [each.name for each in profile.power_modes]
    if profile.default_power_mode and profile.default_power_mode not in modes:
        raise place.at("default_power_mode").wrong(
            f"is {profile.default_power_mode!r}, which is none of power_modes",
            f"they are: {', '.join(modes) or 'none'}",
        )
    for key in ("provider_options", "provider_quantization", "float_only", "float16"):
        for provider in getattr(profile, key):
            if provider not in profile.providers:
                raise place.at(key).wrong(
                    f"names {provider}, which is none of providers",
                    _nearest(provider, profile.providers),
                )
    if profile.python.min and profile.python.typical:
        oldest, typical = (
            tuple(int(part) for part in text.split("."))
            for text in (profile.python.min, profile.python.typical)
        )
        if typical < oldest:
            raise place.at("python.typical").wrong(
                f"is {profile.python.typical}, older than python.min", "exchange the two"
            )


def _nearest(key: str, known: typing.Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=1)
    near = near or [name for name in names if key and name.startswith(key)]
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
