"""Mutant: a delivery counts as unreferenced although it was referenced."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import rewrite_statement

TESTS = "test_B2_a_reference"


def apply(patch: pytest.MonkeyPatch) -> None:
    rewrite_statement(patch, "_read_session", "[:REFERENCED]", "[:NEVER]")
