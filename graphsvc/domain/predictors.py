"""Versions of a tenant's value predictor, as the graph keeps them, and how each was measured.

Source: gates B9, B10; seed selection-budgeted-retrieval, Implementation Rules 3 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from graphsvc.domain.units import ContextUnitKind

SHARED_PRIOR_VERSION = 0
"""The predictor that ships: what a tenant uses until one of its own is adopted, and what it can always go back to."""


@dataclass(frozen=True, slots=True)
class PredictorVersion:
    """A fitted predictor of one tenant.

    Attributes:
        version: from 1, ascending in the tenant.
        created_time: when it was fitted, aware UTC.
        prior_version: name of the shared prior it was fitted from (``ranking.value.PRIOR.version``).
        intercept: logit of a candidate about which every feature says nothing.
        weights: of each feature by its name.
        reference_rates: share of delivered units that were referenced, by kind, shrunk towards the prior's.
        retrieval_count: reported retrievals it was fitted on.
        example_count: delivered units of these.
        adopted: it was better on feedback kept out of the fit, and so became the tenant's.
        report_json: the calibration report (``ranking.calibration``).
    """

    version: int
    created_time: datetime
    prior_version: str
    intercept: float
    weights: Mapping[str, float]
    reference_rates: Mapping[ContextUnitKind, float]
    retrieval_count: int
    example_count: int
    adopted: bool
    report_json: str


@dataclass(frozen=True, slots=True)
class ReferenceRate:
    """Expected against observed references of a group of delivered units.

    Attributes:
        kind: of all of them; None: a tenth of the units by value.
        lowest_value: among them, in [0, 1].
        highest_value: among them, in [0, 1].
        count: units.
        expected: mean value, in [0, 1].
        observed: share that was referenced, in [0, 1].
    """

    kind: ContextUnitKind | None
    lowest_value: float
    highest_value: float
    count: int
    expected: float
    observed: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a predictor does on feedback kept out of the fit.

    Attributes:
        brier: mean squared difference of value and verdict, in [0, 1], lower is better; None: no feedback.
        auc: probability that a referenced unit has a higher value than an ignored one; None: all verdicts are alike.
        auc_error: its standard error, verdicts of one retrieval taken as one observation.
        by_kind: in the order of the kinds; kinds without a unit are left out.
        by_decile: ascending by value; fewer than ten where there are fewer units.
    """

    brier: float | None
    auc: float | None
    auc_error: float | None
    by_kind: tuple[ReferenceRate, ...]
    by_decile: tuple[ReferenceRate, ...]


@dataclass(frozen=True, slots=True)
class CalibrationSlice:
    """One part of the judged feedback by time.

    Attributes:
        first_time: of its first report kept out, aware UTC.
        last_time: of its last.
        example_count: units.
        in_use_brier: Brier score of the predictor in use.
        candidate_brier: of the candidate.
        gain_error: standard error of the difference.
    """

    first_time: datetime
    last_time: datetime
    example_count: int
    in_use_brier: float
    candidate_brier: float
    gain_error: float

    @property
    def gain(self) -> float:
        """By how much the candidate's Brier score is lower here."""
        return self.in_use_brier - self.candidate_brier


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What a recalibration found, and why the candidate was adopted or not.

    Attributes:
        in_use_version: the predictor it was measured against; 0: the shared prior.
        fit_retrievals: retrievals it was fitted on.
        fit_examples: delivered units of these.
        left_out_retrievals: others that it was not fitted on, because together they contradict all the rest.
        held_out_retrievals: retrievals that judged.
        held_out_examples: delivered units of these.
        in_use: the predictor in use.
        candidate: the fitted one.
        brier_gain: by how much the candidate's Brier score is lower, the slice in which it gains most left aside; None:
            no feedback was kept out.
        brier_gain_error: its standard error, verdicts of one retrieval taken as one observation.
        slices: by time.
        adopted: it is the tenant's predictor from now on.
        reasons: sentences: every condition that it failed, or what it gained.
    """

    in_use_version: int
    fit_retrievals: int
    fit_examples: int
    left_out_retrievals: int
    held_out_retrievals: int
    held_out_examples: int
    in_use: Evaluation
    candidate: Evaluation
    brier_gain: float | None
    brier_gain_error: float | None
    slices: tuple[CalibrationSlice, ...]
    adopted: bool
    reasons: tuple[str, ...]
