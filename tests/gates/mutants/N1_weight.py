"""Mutant: A weight may be anything."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.services import contexts

TESTS = "test_N1_weight"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = contexts._relation

    def relation(principal: Any, source_id: str, draft: Any, field: str) -> Any:
        return real(principal, source_id, dataclasses.replace(draft, weight=0.5), field)

    patch.setattr(contexts, "_relation", relation)
