"""Frozen dataclasses to JSON and back, from their annotations alone.

Every value of core is stored, printed and sent as JSON; writing `to_json` by hand for each would
be twenty lists of fields to keep in step. Only the shapes that core uses are understood: nested
dataclasses, tuples, mappings, optionals, literals, and unions of dataclasses (told apart by a
`kind` key holding the class name). A missing key takes the field's default, so that old files
stay readable when a field is added; an unknown key is an error, never dropped silently.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")


def encode(value: Any) -> Any:
    """A value of core as what `json.dumps` takes; non-finite floats become strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: encode(item) for key, item in items}
    if isinstance(value, tuple | list):
        return [encode(item) for item in cast("tuple[Any, ...]", value)]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and value not in (value, float("inf"), float("-inf")):
        return "nan"
    if isinstance(value, float) and abs(value) == float("inf"):
        return "inf" if value > 0 else "-inf"
    return value


def decode(cls: type[T], document: Any) -> T:
    """The value that `encode` wrote.

    Raises:
        ValueError: A key that the class does not have, or a value of another type.
    """
    try:
        return cast("T", _decode(cls, document))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"this is no {_name(cls)}: {error}") from error


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _decode(hint: Any, document: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint, document)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _union(arguments, document)
    if origin is tuple:
        inner = arguments[0] if arguments[-1] is Ellipsis else None
        return tuple(
            _decode(inner if inner is not None else arguments[index], item)
            for index, item in enumerate(document)
        )
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _decode(arguments[1], item) for key, item in document.items()}
    if origin is typing.Literal and document not in arguments:
        raise ValueError(f"expected one of {arguments}, found {document!r}")
    return hint(document) if hint is float or hint is Path else document


def _union(arguments: tuple[Any, ...], document: Any) -> Any:
    if document is None:
        return None
    classes = {_name(a): a for a in arguments if dataclasses.is_dataclass(a)}
    if isinstance(document, dict) and classes:
        kind = cast("dict[str, Any]", document).get("kind")
        if kind is None and len(classes) == 1:
            kind = next(iter(classes))
        if kind not in classes:
            raise ValueError(f"expected one of {sorted(classes)}, found {kind!r}")
        return _dataclass(classes[kind], document)
    tuples = [a for a in arguments if typing.get_origin(a) is tuple]
    if isinstance(document, list) and tuples:
        return _decode(tuples[0], cast("list[Any]", document))
    plain = [a for a in arguments if a is not type(None) and not dataclasses.is_dataclass(a)]
    return _decode(plain[0], document) if len(plain) == 1 else cast("Any", document)


def _name(cls: Any) -> str:
    return str(cls.__name__)


def _dataclass(cls: Any, document: Any) -> Any:
    if not isinstance(document, dict):
        raise ValueError(f"{cls.__name__} is an object, found {type(document).__name__}")
    given = {key: item for key, item in cast("dict[str, Any]", document).items() if key != "kind"}
    unknown = given.keys() - {field.name for field in dataclasses.fields(cls)}
    if unknown:
        raise ValueError(f"{cls.__name__} has no {', '.join(sorted(unknown))}")
    hints = _hints(cls)
    return cls(**{key: _decode(hints[key], item) for key, item in given.items()})
