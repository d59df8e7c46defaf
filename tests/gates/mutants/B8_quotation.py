"""Mutant: a citation counts although the output quotes it out of a unit."""

from __future__ import annotations

import pytest

TESTS = "test_B8_text_in_a_unit"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.references._quotation_keys", lambda before, after: iter(()))
