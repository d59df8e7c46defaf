"""Mutant: ids of units that were not delivered are passed over in silence."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.services import feedback

TESTS = "test_B8_units_that_were_not"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = feedback.FeedbackUseCases._judge

    async def judge(self: feedback.FeedbackUseCases, principal: Any, delivery: Any, report: Any, options: Any) -> Any:
        known = {unit.unit_id for unit in delivery.units}
        cited = tuple(one for one in report.cited_unit_ids if one in known)
        decisive = tuple(one for one in report.decisive_unit_ids if one in known)
        heeded = dataclasses.replace(report, cited_unit_ids=cited, decisive_unit_ids=decisive)
        return await real(self, principal, delivery, heeded, options)

    patch.setattr(feedback, "_check_delivered", lambda report, delivery: None)
    patch.setattr(feedback.FeedbackUseCases, "_judge", judge)
