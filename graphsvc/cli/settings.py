"""``graphsvc settings`` and ``graphsvc version``."""

from __future__ import annotations

import json
import platform
from enum import Enum, EnumType
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Literal, cast, get_args, get_origin

import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from graphsvc.settings import ENV_PREFIX, Settings


def settings(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """List every GRAPHSVC_* variable with its default, what it takes, and what it is for."""
    rows = [(f"{ENV_PREFIX}{name.upper()}", *_described(info)) for name, info in Settings.model_fields.items()]
    if as_json:
        names = ("variable", "default", "takes", "description")
        typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)
    table = Table(box=None, pad_edge=False)
    table.add_column("variable", no_wrap=True)
    table.add_column("default", overflow="fold")
    table.add_column("takes", overflow="fold")
    table.add_column("what it is for", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table, highlight=False)


def version() -> None:
    """Print the version of graphsvc and of Python."""
    typer.echo(f"graphsvc {installed_version('graphsvc')} (Python {platform.python_version()})")


def _described(info: FieldInfo) -> tuple[str, str, str]:
    """(default, what it takes, description) of a setting."""
    return _default(info), _takes(info), info.description or ""


def _default(info: FieldInfo) -> str:
    if info.default is not PydanticUndefined:
        value: object = info.default
        if value is None:
            return "unset"
        if isinstance(value, bool):
            return str(value).lower()
        return (str(value.value) if isinstance(value, Enum) else str(value)) or "empty"
    value = info.get_default(call_default_factory=True, validated_data={})
    home = str(Path.home())
    return str(value).replace(home, "~", 1)


def _takes(info: FieldInfo) -> str:
    limits: dict[str, object] = {}
    for part in info.metadata:
        for name in ("ge", "gt", "le", "lt", "pattern"):
            if (value := getattr(part, name, None)) is not None:
                limits[name] = value
    if "pattern" in limits:
        return str(limits["pattern"]).strip("^$()").replace("|", ", ")
    kind = _type_name(info.annotation)
    low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
    if low is not None and high is not None:
        return f"{kind} {low} to {high}"
    if low is not None:
        return f"{kind}, {low} or more"
    return kind


def _type_name(annotation: object) -> str:
    names: dict[object, str] = {
        str: "text",
        int: "integer",
        float: "number",
        bool: "true, false",
        Path: "path",
        SecretStr: "secret",
    }
    if annotation in names:
        return names[annotation]
    if isinstance(annotation, EnumType):
        return ", ".join(str(member.value) for member in cast("type[Enum]", annotation))
    members = [part for part in cast("tuple[object, ...]", get_args(annotation)) if part is not type(None)]
    if get_origin(annotation) is Literal:
        return ", ".join(str(part) for part in members)
    return _type_name(members[0]) if members else str(annotation)
