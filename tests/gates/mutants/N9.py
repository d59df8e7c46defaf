"""Mutant: the model that wrote a unit is not kept."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.graph import unit_store
from graphsvc.ports import NewUnit

TESTS = "test_N9_ownership"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = unit_store._properties

    def properties(new: NewUnit) -> dict[str, Any]:
        values = real(new)
        return {**values, "model": ""}

    patch.setattr(unit_store, "_properties", properties)
