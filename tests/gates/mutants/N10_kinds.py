"""Mutant: A policy that names no kinds shares all of them."""

from __future__ import annotations

import pytest

from graphsvc.domain.units import ContextUnitKind

TESTS = "test_N10_a_policy_that_names_no_kinds"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.services.registry.DEFAULT_SHARED_KINDS", frozenset(ContextUnitKind))
