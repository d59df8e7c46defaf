"""Mutant: the overhead of the harness is forgotten."""

from __future__ import annotations

import dataclasses

import pytest

from graphsvc.domain.budget import Budget

TESTS = "test_B4_retrieval_budget"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = Budget.of_step

    def of_step(total_step_budget: int, harness_overhead: int, reserve_ratio: float, factor: float = 1.0) -> Budget:
        return dataclasses.replace(real(total_step_budget, 0, reserve_ratio, factor), harness_overhead=harness_overhead)

    patch.setattr(Budget, "of_step", of_step)
