"""Mutant: A budget is never too small."""

from __future__ import annotations

import dataclasses

import pytest

from graphsvc import app
from graphsvc.services.retrievals import RetrievalSettings
from graphsvc.settings import Settings

TESTS = "test_B5_nothing"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = app.retrieval_settings

    def retrieval_settings(settings: Settings) -> RetrievalSettings:
        made = real(settings)
        return dataclasses.replace(made, thresholds=dataclasses.replace(made.thresholds, min_retrieval_budget=0))

    patch.setattr(app, "retrieval_settings", retrieval_settings)
