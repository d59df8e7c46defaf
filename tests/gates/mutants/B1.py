"""Mutant: A candidate costs its content only: the citation line is forgotten."""

from __future__ import annotations

import pytest

TESTS = "test_B1_"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("adapters.plain_text.PlainTextAdapter.block_overhead", lambda self, unit_id, encoding, counter: 0)
