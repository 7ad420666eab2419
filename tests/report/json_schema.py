"""The part of JSON Schema that report/schema.json uses; an unknown keyword is an error."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_SAID = {"$schema", "$defs", "title", "description"}


def breaches(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = ""
) -> Iterator[str]:
    """Where a value does not meet the schema."""
    for keyword, rule in schema.items():
        if keyword == "$ref":
            yield from breaches(value, root["$defs"][rule.rpartition("/")[2]], root, at)
        elif keyword == "anyOf":
            tried = [list(breaches(value, each, root, at)) for each in rule]
            if all(tried):
                yield from min(tried, key=len)
        elif keyword == "type":
            names = [rule] if isinstance(rule, str) else rule
            if not any(_is(value, name) for name in names):
                yield f"{at}: {value!r} is not {rule}"
        elif keyword in ("enum", "const"):
            if value not in (rule if keyword == "enum" else [rule]):
                yield f"{at}: {value!r} is not {rule}"
        elif keyword == "pattern":
            if not re.search(rule, value):
                yield f"{at}: {value!r} does not match {rule}"
        elif keyword == "items":
            for index, item in enumerate(value if isinstance(value, list) else []):
                yield from breaches(item, rule, root, f"{at}/{index}")
        elif keyword == "required":
            yield from (f"{at}: no {name}" for name in rule if name not in (value or {}))
        elif keyword in ("properties", "additionalProperties"):
            yield from _members(value, keyword, schema, root, at)
        elif keyword not in _SAID:
            raise AssertionError(f"the validator does not know {keyword}")


def _members(
    value: Any, keyword: str, schema: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> Iterator[str]:
    named = schema.get("properties", {})
    for key, item in (value if isinstance(value, dict) else {}).items():
        if keyword == "properties" and key in named:
            yield from breaches(item, named[key], root, f"{at}/{key}")
        elif keyword == "additionalProperties" and key not in named:
            rule = schema[keyword]
            if rule is False:
                yield f"{at}: {key} is not described"
            else:
                yield from breaches(item, rule, root, f"{at}/{key}")


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name != "boolean":
        return False
    return isinstance(value, _TYPES[name])
