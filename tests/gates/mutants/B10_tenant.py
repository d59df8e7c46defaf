"""Mutant: a predictor of any tenant can be used."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.graph.predictor_store import GraphPredictorStore

TESTS = "test_B10_predictors_are"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = GraphPredictorStore.__init__

    def init(self: Any, *args: Any) -> None:
        real(self, *args)
        old = "(predictor:Predictor {tenant_id: $tenant_id, version: $write.version})"
        assert old in self._use.text
        text = self._use.text.replace(old, "(predictor:Predictor {version: $write.version})")
        self._use = dataclasses.replace(self._use, text=text)

    patch.setattr(GraphPredictorStore, "__init__", init)
