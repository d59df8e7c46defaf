"""Mutant: policies never end by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.graph import tenant_store

TESTS = "test_N10_a_policy_ends"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = tenant_store._policy_properties
    patch.setattr(tenant_store, "_policy_properties", lambda policy: _endless(real(policy)))


def _endless(properties: dict[str, Any]) -> dict[str, Any]:
    return {**properties, "expires_time": None}
