"""Mutant: when the plug-in fails, the other methods say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.services.feedback import FeedbackUseCases

TESTS = "test_B8_a_plug_in"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def entail(self: FeedbackUseCases, output: str, units: Any, options: Any, found: Any) -> None:
        try:
            await self._entailment.score(output, [unit.content for unit in units])  # type: ignore[union-attr]
        except Exception:
            for evidence in found.values():
                evidence.clear()

    patch.setattr(FeedbackUseCases, "_entail", entail)
