"""Mutant: A superseded unit is a candidate like any other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.services import retrievals

TESTS = "test_KF_a_superseded_fact"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = retrievals.select

    def select(candidates: Any, costs: Any, budget: Any, **options: Any) -> Any:
        return real([dataclasses.replace(one, superseded_by="") for one in candidates], costs, budget, **options)

    patch.setattr(retrievals, "select", select)
