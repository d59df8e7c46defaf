"""Mutant: of two reports at once both are kept."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import rewrite_statement

TESTS = "test_B8_two_servers"


def apply(patch: pytest.MonkeyPatch) -> None:
    rewrite_statement(patch, "_record_outcome", "retrieval.report_fingerprint IS NULL AS is_new", "true AS is_new")
