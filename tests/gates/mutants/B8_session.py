"""Mutant: another session may report."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import rewrite_statement

TESTS = "test_B8_only_the_session"


def apply(patch: pytest.MonkeyPatch) -> None:
    condition = "WHERE retrieval.agent_id = $caller.agent_id AND retrieval.session_id = $caller.session_id"
    for attribute in ("_get_delivery", "_record_outcome"):
        rewrite_statement(patch, attribute, condition, "WHERE true")
