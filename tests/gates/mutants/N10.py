"""Mutant: every unit of the tenant is visible to everybody in it."""

from __future__ import annotations

import re

import pytest

from graphsvc.graph import catalog

_PART = re.compile(r"(// visible: begin\n)(.*?)(\n *// visible: end)", re.DOTALL)
_OWNER = re.compile(r"\n\s*AND \(.*", re.DOTALL)


TESTS = "test_N10_units_are_private"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = catalog.read_sources

    def read_sources() -> dict[str, str]:
        return {path: _PART.sub(lambda m: m[1] + _OWNER.sub("", m[2]) + m[3], text) for path, text in real().items()}

    patch.setattr(catalog, "read_sources", read_sources)
