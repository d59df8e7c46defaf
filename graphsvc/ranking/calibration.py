"""Recalibration: a tenant's predictor fitted to its feedback, and whether it is better than the one in use.

**The fit** is logistic regression with a Gaussian prior around the shared prior (maximum a posteriori): with little
feedback the shared prior's structure stands, and each verdict moves it a little further. Weights keep the sign that the
prior gives them, so that more of what speaks for a unit never lowers its value. What is fitted is what is judged: the
predictor is not fitted again on the feedback that was kept out.

**Selection bias.** Only delivered units have a verdict, and the predictor in use chose them. The fit says how likely a
unit *like those delivered* is to be referenced. A feature that hardly varies among them stays at the prior, which the
Gaussian prior sees to; a kind of unit that is never delivered can never earn a better rate. Verdicts on units that were
not delivered are not invented.

**Adoption** asks more than a better average, because whoever reports outcomes can write feedback: see :func:`judge`.

Source: gates B9, B10; seed selection-budgeted-retrieval, Implementation Rules 3 and 5.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from graphsvc.domain.predictors import (
    SHARED_PRIOR_VERSION,
    CalibrationReport,
    CalibrationSlice,
    Evaluation,
    PredictorVersion,
    ReferenceRate,
)
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ports import FeedbackExample
from graphsvc.ranking.value import PRIOR, PRIOR_REFERENCE_RATES, Feature, Predictor

Floats = npt.NDArray[np.float64]

MAX_RETRIEVALS = 1000
"""Newest reported retrievals that a fit reads. With the half-life below, older ones would hardly count."""
HALF_LIFE_RETRIEVALS = 250
"""A verdict counts half for each so many newer retrievals: all feedback teaches, and what has drifted gives way."""
WEIGHT_DEVIATION = 1.0
"""Standard deviation of every weight, and of the intercept, around the shared prior's, in the logit.

Features are scaled to [0, 1], so a weight is the logit between the worst and the best: one deviation is a factor of 2.7
in the odds. A hundred verdicts on which a feature varies well move its weight about half of the way."""
MAX_WEIGHT = 20.0
"""Largest weight, or twice the prior's if that is larger: e^20 in the odds decides everything already."""
RATE_PSEUDO_COUNT = 50.0
"""Delivered units of a kind that the prior's rate is worth: after so many the rate is half the tenant's own."""

HELD_OUT_SHARE = 0.3
"""Share of the retrievals kept out of every fit."""
JUDGED_RETRIEVALS = 500
"""Newest retrievals whose kept-out part judges: five batches."""
SLICES = 5
"""Parts of these by time, of equal size: with a full window, one batch is one slice."""
MIN_HELD_OUT_RETRIEVALS = 15
"""Fewer kept out say nothing."""
BRIER_DEVIATIONS = 1.645
"""Standard errors by which the Brier score must be better: 95 % one-sided. A tie adopted by chance costs nothing."""
AUC_DEVIATIONS = 3.0
"""Standard errors by which an AUC must be off one half. Verdicts at random leave it there, and the question is asked
again with every batch: it must not pass by chance once in years."""
AUC_TOLERANCE = 0.01
"""By which the AUC may be lower than in use: probabilities may improve where the order was good already."""
DECILES = 10
MIN_SLICE_RETRIEVALS = 10
"""Fewer in a slice cannot contradict the others: one output alone may be odd."""

_FEATURES: tuple[Feature, ...] = tuple(PRIOR.weights)
_RATE = Feature.HISTORICAL_REFERENCE_RATE


@cache
def _report_type() -> TypeAdapter[CalibrationReport]:
    return TypeAdapter(CalibrationReport)


def report_to_json(report: CalibrationReport) -> str:
    """Compact JSON; :func:`report_from_json` reads it back."""
    return _report_type().dump_json(report).decode()


def report_from_json(text: str) -> CalibrationReport:
    """The report that :func:`report_to_json` wrote."""
    return _report_type().validate_json(text)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted predictor with its report.

    Attributes:
        weights: of each feature by its name.
        reference_rates: of every kind.
    """

    intercept: float
    weights: Mapping[str, float]
    reference_rates: Mapping[ContextUnitKind, float]
    report: CalibrationReport


# ---- what a version means -------------------------------------------------------------------------------------------


def predictor_of(version: PredictorVersion) -> Predictor:
    """The predictor a stored version stands for.

    Features that the running code does not know are left out; those that the version does not have take the shared
    prior's weight.
    """
    return Predictor(
        version=f"v{version.version}",
        intercept=version.intercept,
        weights={feature: version.weights.get(feature.value, weight) for feature, weight in PRIOR.weights.items()},
    )


# ---- recalibration --------------------------------------------------------------------------------------------------


def calibrate(examples: Sequence[FeedbackExample], in_use: PredictorVersion | None) -> Calibration:
    """A predictor fitted to a part of the feedback, and its report, which says whether to adopt it.

    The same feedback gives the same predictor. Examples whose features are not those of the running code are left out.

    Args:
        examples: by (reported_time, retrieval_id), oldest first.
        in_use: what it is measured against; None: the shared prior.
    """
    data = Verdicts.of(examples)
    fitted = data.part(~data.held_out)
    left_out = contradicting_slice(fitted)
    poison = fitted.part(fitted.slices == left_out)
    fitted = fitted.part(fitted.slices != left_out)
    rates = shrunken_rates(fitted)
    intercept, weights = fit(fitted, rates)
    judged = data.part(data.held_out & (data.slices < SLICES))
    report = judge(
        judged,
        _values(judged, *_model(in_use)),
        _values(judged, intercept, weights, rates),
        left_out=left_out,
    )
    report = replace(
        report,
        in_use_version=SHARED_PRIOR_VERSION if in_use is None else in_use.version,
        fit_retrievals=len(np.unique(fitted.retrieval)),
        fit_examples=len(fitted.referenced),
        left_out_retrievals=len(np.unique(poison.retrieval)),
    )
    names = (feature.value for feature in _FEATURES)
    return Calibration(intercept, dict(zip(names, map(float, weights), strict=True)), rates, report)


def is_held_out(retrieval_id: str) -> bool:
    """Whether a retrieval's feedback is kept out of every fit, now and later.

    Drawn by the id, which the service makes at random: a caller cannot steer it, and no predictor has ever seen what it
    is judged on.
    """
    digest = hashlib.sha256(retrieval_id.encode()).digest()
    return int.from_bytes(digest[:8]) < HELD_OUT_SHARE * 2**64


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Examples as arrays, oldest first.

    Attributes:
        features: one row an example, one column a feature of ``_FEATURES``.
        kinds: of each example.
        referenced: 1.0 or 0.0 of each.
        retrieval: place of its retrieval by time, from 0.
        times: of its report.
        held_out: kept out of the fit.
        retrieval_count: retrievals in all.
    """

    features: Floats
    kinds: npt.NDArray[np.object_]
    referenced: Floats
    retrieval: npt.NDArray[np.int64]
    times: npt.NDArray[np.object_]
    held_out: npt.NDArray[np.bool_]
    retrieval_count: int

    @staticmethod
    def of(examples: Sequence[FeedbackExample]) -> Verdicts:
        """Examples that have every feature of the running code.

        Args:
            examples: oldest first.
        """
        names = [feature.value for feature in _FEATURES]
        known = [one for one in examples if all(name in one.features for name in names)]
        places: dict[str, int] = {}
        retrieval = [places.setdefault(one.retrieval_id, len(places)) for one in known]
        held = {retrieval_id: is_held_out(retrieval_id) for retrieval_id in places}
        return Verdicts(
            features=np.array([[one.features[name] for name in names] for one in known], np.float64).reshape(
                len(known), len(names)
            ),
            kinds=np.array([one.kind for one in known], np.object_),
            referenced=np.array([one.referenced for one in known], np.float64),
            retrieval=np.array(retrieval, np.int64),
            times=np.array([one.reported_time for one in known], np.object_),
            held_out=np.array([held[one.retrieval_id] for one in known], np.bool_),
            retrieval_count=len(places),
        )

    def part(self, where: npt.NDArray[np.bool_]) -> Verdicts:
        """Those of the examples."""
        return Verdicts(
            self.features[where],
            self.kinds[where],
            self.referenced[where],
            self.retrieval[where],
            self.times[where],
            self.held_out[where],
            self.retrieval_count,
        )

    @property
    def slices(self) -> npt.NDArray[np.int64]:
        """The time slice of each example, the newest 0; each has a fifth of the newest 500 retrievals, or of all."""
        size = max(1, math.ceil(min(self.retrieval_count, JUDGED_RETRIEVALS) / SLICES))
        return (self.retrieval_count - 1 - self.retrieval) // size

    @property
    def influence(self) -> Floats:
        """How much each verdict counts in a fit, in (0, 1]: the newest retrieval's 1."""
        return 0.5 ** ((self.retrieval_count - 1 - self.retrieval) / HALF_LIFE_RETRIEVALS)


def shrunken_rates(data: Verdicts) -> dict[ContextUnitKind, float]:
    """The reference rate of every kind: the tenant's own, drawn to the prior's as if that were fifty units."""
    rates: dict[ContextUnitKind, float] = {}
    for kind, prior in PRIOR_REFERENCE_RATES.items():
        of_kind = data.kinds == kind
        influence = data.influence[of_kind]
        referenced = float(influence @ data.referenced[of_kind])
        rates[kind] = (referenced + RATE_PSEUDO_COUNT * prior) / (float(influence.sum()) + RATE_PSEUDO_COUNT)
    return rates


def fit(data: Verdicts, rates: Mapping[ContextUnitKind, float]) -> tuple[float, Floats]:
    """Intercept and weights: the maximum a posteriori, the one there is, since the loss is strictly convex.

    Args:
        data: feedback; none: the prior.
        rates: what the reference rate of a kind is valued at from now on, whatever it was then.
    """
    # Loaded here: this runs in a process of its own, and the service need not carry it.
    from scipy.optimize import (  # pyright: ignore[reportMissingTypeStubs]
        minimize,  # pyright: ignore[reportUnknownVariableType]
    )

    columns = np.column_stack([np.ones(len(data.referenced)), _with_rates(data, rates)])
    centre = np.array([PRIOR.intercept, *(PRIOR.weights[feature] for feature in _FEATURES)])
    influence, verdict = data.influence, data.referenced

    def loss(theta: Floats) -> tuple[float, Floats]:
        logit = columns @ theta
        away = (theta - centre) / WEIGHT_DEVIATION**2
        value = influence @ (np.logaddexp(0.0, logit) - verdict * logit) + 0.5 * away @ (theta - centre)
        return float(value), columns.T @ (influence * (_sigmoid(logit) - verdict)) + away

    bounds = [(None, None), *map(_bounds, centre[1:])]
    found = cast("Any", minimize)(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(found.x[0]), np.asarray(found.x[1:], np.float64)


def contradicting_slice(data: Verdicts) -> int | None:
    """The one time slice in which units are referenced against all that the others teach; None: there is none.

    What is ranked low by a fit to the other slices is referenced there more than what is ranked high: an AUC three
    standard errors under one half. A drift hardly does that, and one that does is soon more than one slice: then none
    is left out. A batch of inverted verdicts does it, and would spoil the fit even where it cannot carry it.
    """
    found: list[int] = []
    for number in np.unique(data.slices):
        there, others = data.part(data.slices == number), data.part(data.slices != number)
        if len(np.unique(there.retrieval)) < MIN_SLICE_RETRIEVALS or not len(others.retrieval):
            continue
        rates = shrunken_rates(others)
        auc, error = _auc(there, _values(there, *fit(others, rates), rates))
        if auc is not None and error is not None and auc < 0.5 - AUC_DEVIATIONS * error:
            found.append(int(number))
    return found[0] if len(found) == 1 else None


def judge(judged: Verdicts, before: Floats, after: Floats, *, left_out: int | None) -> CalibrationReport:
    """The report on a candidate, as far as the feedback kept out tells it.

    It is adopted when, on feedback kept out of the fit, all of these hold.

    1. Its Brier score is better beyond noise (1.645 standard errors), even without the time slice in which it gains
       most: one batch cannot carry it. What was left out of the fit is left aside here too.
    2. Its AUC is three standard errors above one half, and not below that of the predictor in use. With verdicts at
       random a candidate still gains in the Brier score, by learning how many units are referenced; it gains no order.
    3. It is better in more than half of the time slices; with a full window one batch is one slice. A drift, which
       lasts, is adopted after three to five.
    4. It is not worse in the newest slice beyond noise (one standard error), and that slice does not contradict the
       others. What it will be used on comes after that, so nothing is put in use while feedback of another kind than
       it learned from is coming in.

    Args:
        judged: the feedback kept out.
        before: values of the predictor in use.
        after: values of the candidate.
        left_out: the slice that contradicts the others and was left out of the fit; None: there is none.
    """
    held_out_retrievals = len(np.unique(judged.retrieval))
    in_use, candidate = _evaluate(judged, before), _evaluate(judged, after)
    numbers = np.unique(judged.slices)[::-1]
    slices = tuple(
        CalibrationSlice(
            first_time=judged.times[there][0],
            last_time=judged.times[there][-1],
            example_count=int(there.sum()),
            in_use_brier=_brier(judged.referenced[there], before[there]),
            candidate_brier=_brier(judged.referenced[there], after[there]),
            gain_error=_gain(judged.part(there), before[there], after[there])[1],
        )
        for there in (judged.slices == number for number in numbers)
    )
    gain = error = None
    if slices:
        best = numbers[np.argmax([one.gain for one in slices])]
        rest = (judged.slices != best) & (judged.slices != left_out)
        gain, error = _gain(judged.part(rest), before[rest], after[rest]) if rest.any() else (0.0, 0.0)
    faults = list(_faults(held_out_retrievals, in_use, candidate, gain, error, slices))
    if left_out == 0:
        faults.append("the newest time slice contradicts all others")
    return CalibrationReport(
        in_use_version=SHARED_PRIOR_VERSION,
        fit_retrievals=0,
        fit_examples=0,
        left_out_retrievals=0,
        held_out_retrievals=held_out_retrievals,
        held_out_examples=len(judged.referenced),
        in_use=in_use,
        candidate=candidate,
        brier_gain=gain,
        brier_gain_error=error,
        slices=slices,
        adopted=not faults,
        reasons=tuple(faults)
        or (
            f"Brier score {in_use.brier:.4f} -> {candidate.brier:.4f}, AUC {in_use.auc:.3f} -> {candidate.auc:.3f}, "
            f"better in {sum(one.gain > 0 for one in slices)} of {len(slices)} time slices",
        ),
    )


def _faults(
    held_out_retrievals: int,
    in_use: Evaluation,
    candidate: Evaluation,
    gain: float | None,
    error: float | None,
    slices: Sequence[CalibrationSlice],
) -> Sequence[str]:
    """Every condition of :func:`judge` that does not hold, as a sentence."""
    if held_out_retrievals < MIN_HELD_OUT_RETRIEVALS or gain is None or error is None:
        return [
            f"too little feedback: {held_out_retrievals} retrievals kept out of the fit, "
            f"{MIN_HELD_OUT_RETRIEVALS} needed"
        ]
    if candidate.auc is None or candidate.auc_error is None or in_use.auc is None:
        return ["all units kept out of the fit have the same verdict"]
    faults: list[str] = []
    if gain <= BRIER_DEVIATIONS * error:
        faults.append(
            f"Brier score not better beyond noise without the best time slice: gain {gain:.4f}, "
            f"standard error {error:.4f}"
        )
    if candidate.auc <= 0.5 + AUC_DEVIATIONS * candidate.auc_error:
        faults.append(
            f"order not better than chance: AUC {candidate.auc:.3f}, standard error {candidate.auc_error:.3f}"
        )
    if candidate.auc < in_use.auc - AUC_TOLERANCE:
        faults.append(f"order worse: AUC {candidate.auc:.3f}, in use {in_use.auc:.3f}")
    better = sum(one.gain > 0 for one in slices)
    if 2 * better <= len(slices):
        faults.append(f"better in {better} of {len(slices)} time slices only")
    newest = slices[-1]
    if newest.gain < -newest.gain_error:
        faults.append(f"worse in the newest time slice: gain {newest.gain:.4f}, standard error {newest.gain_error:.4f}")
    return faults


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _model(version: PredictorVersion | None) -> tuple[float, Floats, Mapping[ContextUnitKind, float]]:
    """Intercept, weights and reference rates of a version; of the shared prior for None."""
    predictor = PRIOR if version is None else predictor_of(version)
    rates = PRIOR_REFERENCE_RATES if version is None else {**PRIOR_REFERENCE_RATES, **version.reference_rates}
    return predictor.intercept, np.array([predictor.weights[feature] for feature in _FEATURES]), rates


def _bounds(prior: float) -> tuple[float, float]:
    """Where a weight may lie: on its prior's side of 0; at 0 if the prior does not say which."""
    limit = max(MAX_WEIGHT, 2 * abs(prior)) * math.copysign(1.0, prior) if prior else 0.0
    return min(0.0, limit), max(0.0, limit)


def _with_rates(data: Verdicts, rates: Mapping[ContextUnitKind, float]) -> Floats:
    features = data.features.copy()
    features[:, _FEATURES.index(_RATE)] = [rates[kind] for kind in data.kinds]
    return features


def _values(data: Verdicts, intercept: float, weights: Floats, rates: Mapping[ContextUnitKind, float]) -> Floats:
    return _sigmoid(intercept + _with_rates(data, rates) @ weights)


def _sigmoid(logit: Floats) -> Floats:
    return 0.5 * (1.0 + np.tanh(0.5 * logit))


def _brier(referenced: Floats, values: Floats) -> float:
    return float(np.mean((values - referenced) ** 2))


def _gain(data: Verdicts, before: Floats, after: Floats) -> tuple[float, float]:
    """By how much the Brier score is lower, and its standard error."""
    gains = (before - data.referenced) ** 2 - (after - data.referenced) ** 2
    gain = float(gains.mean())
    return gain, _clustered_error((gains - gain) / len(gains), data.retrieval)


def _evaluate(data: Verdicts, values: Floats) -> Evaluation:
    auc, error = _auc(data, values)
    order = np.argsort(values, kind="stable")
    return Evaluation(
        brier=_brier(data.referenced, values) if len(values) else None,
        auc=auc,
        auc_error=error,
        by_kind=tuple(
            _rate(data, values, np.flatnonzero(data.kinds == kind), kind)
            for kind in ContextUnitKind
            if (data.kinds == kind).any()
        ),
        by_decile=tuple(_rate(data, values, tenth, None) for tenth in np.array_split(order, DECILES) if len(tenth)),
    )


def _rate(data: Verdicts, values: Floats, where: npt.NDArray[np.intp], kind: ContextUnitKind | None) -> ReferenceRate:
    there = values[where]
    return ReferenceRate(
        kind=kind,
        lowest_value=float(there.min()),
        highest_value=float(there.max()),
        count=len(where),
        expected=float(there.mean()),
        observed=float(data.referenced[where].mean()),
    )


def _auc(data: Verdicts, values: Floats) -> tuple[float | None, float | None]:
    """Area under the ROC curve and its standard error.

    The error is DeLong's, with what the units of one retrieval contribute summed before it is squared: one output
    decides on all of them, so they are no independent observations.
    """
    positive = data.referenced == 1.0
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not (n_positive and n_negative):
        return None, None
    ranks = _midranks(values)
    above = (ranks[positive] - _midranks(values[positive])) / n_negative
    below = 1.0 - (ranks[~positive] - _midranks(values[~positive])) / n_positive
    auc = float(above.mean())
    parts = np.empty(len(values))
    parts[positive] = (above - auc) / n_positive
    parts[~positive] = (below - auc) / n_negative
    return auc, _clustered_error(parts, data.retrieval)


def _midranks(values: Floats) -> Floats:
    """Ranks from 1, the mean rank for values that are equal."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[place]


def _clustered_error(parts: Floats, cluster: npt.NDArray[np.int64]) -> float:
    """Standard error of a sum of parts with mean 0, those of one cluster taken together."""
    _, place = np.unique(cluster, return_inverse=True)
    sums = np.bincount(place, weights=parts)
    return math.sqrt(float(sums @ sums) * len(sums) / max(1, len(sums) - 1))
