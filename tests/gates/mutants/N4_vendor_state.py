"""Mutant: A vendor's state is searched like content."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.graph import unit_store
from graphsvc.ports import NewUnit

TESTS = "test_N4_vendor_state"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = unit_store._properties

    def properties(new: NewUnit) -> dict[str, Any]:
        values = real(new)
        return {**values, "search_terms": f"{values['search_terms']} {new.unit.vendor_state.decode(errors='ignore')}"}

    patch.setattr(unit_store, "_properties", properties)
