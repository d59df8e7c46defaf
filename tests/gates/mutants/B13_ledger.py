"""Mutant: the log says that nothing was spent."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.graph import feedback_store

TESTS = "test_B13_every_retrieval"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = feedback_store._properties
    patch.setattr(feedback_store, "_properties", lambda *given: {**_of(real, given), "tokens_spent": 0})


def _of(real: Any, given: tuple[Any, ...]) -> dict[str, Any]:
    return dict(real(*given))
