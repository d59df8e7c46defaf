"""Mutant: A documented field is dropped on the way into the graph."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.graph import unit_store
from graphsvc.ports import NewUnit

TESTS = "test_N1_every_field"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = unit_store._properties

    def properties(new: NewUnit) -> dict[str, Any]:
        values = real(new)
        return {**values, "provenance": []}

    patch.setattr(unit_store, "_properties", properties)
