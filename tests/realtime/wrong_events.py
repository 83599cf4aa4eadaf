"""Every way in which a client's event can be wrong, made from the JSON schema of its model.

`examples` covers each branch of each union once; `mistakes` changes one place of an example so that
it no longer fits: a key that is missing or unknown, null, another type, out of range, too long.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from realtime.protocol.client import SessionUpdate
from realtime.protocol.config import SessionConfig

Schema = Mapping[str, Any]
Path = tuple[str | int, ...]

OF_TYPE: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "integer": 7,
    "number": 1.5,
    "string": "text",
    "array": [],
    "object": {},
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong event, and where it is wrong."""

    event: dict[str, Any]
    path: Path
    what: str

    @property
    def param(self) -> str:
        """As an error names it."""
        dotted = ""
        for step in self.path:
            dotted += f"[{step}]" if isinstance(step, int) else f".{step}" if dotted else step
        return dotted

    @property
    def event_id(self) -> str | None:
        """The one that the error must carry: what is wrong itself does not count."""
        return None if self.path == ("event_id",) else self.event["event_id"]


class Shape:
    """A model's JSON schema, with its references resolved on the way."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.root = model.model_json_schema()
        self._defs = self.root.get("$defs", {})

    def branches(self, schema: Schema) -> list[Schema]:
        """The alternatives that a place has."""
        if "$ref" in schema:
            return self.branches(self._defs[schema["$ref"].removeprefix("#/$defs/")])
        alternatives = schema.get("anyOf") or schema.get("oneOf")
        if alternatives is None:
            return [schema]
        return [found for one in alternatives for found in self.branches(one)]

    def examples(self, schema: Schema) -> list[Any]:
        """Right values; each branch of each union below is in one of them."""
        found: list[Any] = []
        for branch in self.branches(schema):
            match branch.get("type"):
                case "object" if "properties" in branch:
                    found += self._objects(branch)
                case "array":
                    found += [[one] for one in self.examples(branch.get("items", {}))]
                case "null":
                    pass
                case _:
                    found.append(_value(branch))
        return found or [None]

    def _objects(self, schema: Schema) -> list[dict[str, Any]]:
        values = {key: self.examples(part) for key, part in schema["properties"].items()}
        first = {key: options[0] for key, options in values.items() if options[0] is not None}
        others = [{**first, key: one} for key, options in values.items() for one in options[1:]]
        return [first, *others]

    def mistakes(self, value: Any, schema: Schema, path: Path) -> Iterator[tuple[Path, str, Any]]:
        """(path, what, wrong value) of every wrong change; REMOVED for a key that is gone."""
        branches = self.branches(schema)
        if types := {one for branch in branches for one in _types(branch)}:
            yield from ((path, name, OF_TYPE[name]) for name in sorted(OF_TYPE.keys() - types))
        branch = next((one for one in branches if self._fits(value, one)), None)
        if branch is not None:
            yield from ((path, "range", wrong) for wrong in _out_of_range(branch, branches))
            yield from self._inside(value, branch, path)

    def _inside(self, value: Any, branch: Schema, path: Path) -> Iterator[tuple[Path, str, Any]]:
        if isinstance(value, dict) and "properties" in branch:
            if branch.get("additionalProperties") is False:
                yield (*path, "sound"), "unknown", 1
            for key in branch.get("required", ()):
                yield (*path, key), "missing", REMOVED
            for key, part in branch["properties"].items():
                if key in value:
                    yield from self.mistakes(value[key], part, (*path, key))
        elif isinstance(value, list) and value:
            yield from self.mistakes(value[0], branch["items"], (*path, 0))

    def _fits(self, value: Any, schema: Schema) -> bool:
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            return schema.get("type") == "object" and all(
                properties.get(key, {}).get("const", value.get(key)) == value.get(key)
                for key in ("type", "role")
                if key in value
            )
        if isinstance(value, str):
            options = schema.get("enum", [schema["const"]] if "const" in schema else [value])
            return "string" in _types(schema) and value in options
        names = {list: "array", bool: "boolean", int: "integer", float: "number"}
        return names.get(type(value)) in _types(schema)


REMOVED = object()


def _types(branch: Schema) -> set[str]:
    kind = branch.get("type")
    if kind is None:
        return set()
    return {"integer", "number"} if kind == "number" else {kind}


def _value(branch: Schema) -> Any:
    if "const" in branch:
        return branch["const"]
    if "enum" in branch:
        return branch["enum"][0]
    if branch.get("type") == "integer":
        return max(branch.get("minimum", 1), 1)
    if branch.get("type") == "number":
        return float(branch.get("minimum", 0.5))
    return copy.deepcopy(OF_TYPE[branch.get("type", "null")])


def _out_of_range(branch: Schema, branches: list[Schema]) -> Iterator[Any]:
    if "minimum" in branch:
        yield branch["minimum"] - 1
    if "maximum" in branch:
        yield branch["maximum"] + 1
    if "minLength" in branch:
        yield ""
    if "maxLength" in branch:
        yield "x" * (branch["maxLength"] + 1)
    closed = all("enum" in one or "const" in one for one in branches if "string" in _types(one))
    if closed and ("enum" in branch or "const" in branch):
        yield "no such thing"


def put(document: Any, path: Path, value: Any) -> Any:
    """A copy with this one place changed."""
    changed = copy.deepcopy(document)
    here = changed
    for step in path[:-1]:
        here = here[step]
    if value is REMOVED:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return changed


def examples(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Right events of this kind."""
    shape = Shape(model)
    found = shape.examples(shape.root)
    if model is SessionUpdate:
        session = Shape(SessionConfig)
        found = [{**found[0], "session": one} for one in session.examples(session.root)]
    return [{**one, "event_id": "mine"} for one in found]


def mistakes(model: type[BaseModel]) -> Iterator[Mistake]:
    """Wrong events of this kind, each wrong in one place."""
    shape = Shape(model)
    for number, event in enumerate(examples(model)):
        found = list(shape.mistakes(event, shape.root, ()))
        if model is SessionUpdate:
            session = Shape(SessionConfig)
            inside = session.mistakes(event["session"], session.root, ("session",))
            found += [*inside, (("session", "type"), "missing", REMOVED)]
        for path, what, wrong in found:
            if path and not (path == ("type",) and number):
                yield Mistake(put(event, path, wrong), path, what)
