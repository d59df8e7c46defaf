"""Utility feedback: which units of a retrieval the model's output referenced.

Source: seed selection-budgeted-retrieval, Utility Feedback; gate B8.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import structlog

from graphsvc.domain.errors import ErrorReason, InvalidArgument
from graphsvc.domain.outcomes import OutcomeReport, ReferenceMethod, UnitOutcome
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import (
    ContentKey,
    Delivery,
    EntailmentScorer,
    FeedbackStore,
    PhraseCounts,
    ReadOptions,
    TierStore,
    WriteRequest,
    Written,
)
from graphsvc.ranking.references import COUNT_LIMIT, UnitText, find_traces, phrases_found
from graphsvc.telemetry import describe_fault

MAX_OUTPUT_BYTES = 2**20
ENTAILMENT_THRESHOLD = 0.7
"""The output uses a content when the plug-in's probability is above it."""

_INLINE_CHARACTERS = 16_384
"""Texts up to this are searched on the event loop, within milliseconds; longer ones in a thread."""
_ENTAILMENT_SHARE = 0.5
"""Of the time left: what the plug-in may take, so that a slow one costs its own verdicts and not the whole report."""

_log = structlog.get_logger("graphsvc.feedback")


class FeedbackUseCases:
    """Report an outcome.

    Args:
        feedback: retrievals and their outcomes.
        tiers: contents of the delivered units.
        entailment: the plug-in; None: the other methods stand alone.
    """

    def __init__(self, feedback: FeedbackStore, tiers: TierStore, entailment: EntailmentScorer | None = None) -> None:
        self._feedback = feedback
        self._tiers = tiers
        self._entailment = entailment

    async def report_outcome(
        self, principal: Principal, retrieval_id: str, report: OutcomeReport, request: WriteRequest
    ) -> Written[tuple[UnitOutcome, ...]]:
        """One verdict for each delivered unit, in payload order, kept with the retrieval.

        The same report again changes nothing and gives the first verdicts, replayed.

        Args:
            principal: the agent and session that retrieved.
            retrieval_id: of the retrieval.
            report: what the model made of it.
            request: identity of the write.

        Raises:
            InvalidArgument: FIELD_REQUIRED, nothing is reported; FIELD_INVALID, a unit was not delivered;
                FIELD_TOO_LARGE; REQUEST_ID_REUSED.
            NotFound: RETRIEVAL_NOT_FOUND.
            AlreadyExists: OUTCOME_DIFFERS, another report came first.
            Unavailable, DataLoss: a content cannot be read.
        """
        _check_report(report)
        options = ReadOptions(timeout_ms=request.timeout_ms)
        delivered = await self._feedback.get_delivery(principal, retrieval_id, options)
        delivery = delivered.result
        if delivery.report_fingerprint == report.fingerprint:
            return Written(delivery.outcomes, delivered.bookmarks, replayed=True)
        _check_delivered(report, delivery)
        outcomes = await self._judge(principal, delivery, report, options)
        return await self._feedback.record_outcome(principal, retrieval_id, outcomes, report.fingerprint, request)

    async def _judge(
        self, principal: Principal, delivery: Delivery, report: OutcomeReport, options: ReadOptions
    ) -> list[UnitOutcome]:
        found: dict[str, dict[ReferenceMethod, str]] = {unit.unit_id: {} for unit in delivery.units}
        if report.output.strip():
            units = await self._texts(principal, delivery)
            await self._search(principal, delivery, report.output, units, options, found)
            await self._entail(report.output, units, options, found)
        for unit_id in report.cited_unit_ids:
            found[unit_id][ReferenceMethod.CALLER_CITED] = "cited according to the caller"
        for unit_id in report.decisive_unit_ids:
            found[unit_id][ReferenceMethod.DECISION_IMPACT] = "decisive according to the caller"
        return [
            UnitOutcome(
                unit_id,
                tuple(method for method in ReferenceMethod if method in evidence),
                "; ".join(evidence[method] for method in ReferenceMethod if method in evidence),
            )
            for unit_id, evidence in found.items()
        ]

    async def _texts(self, principal: Principal, delivery: Delivery) -> list[UnitText]:
        keys = {
            unit.unit_id: ContentKey(principal.tenant_id, unit.unit_id, unit.content_sha256) for unit in delivery.units
        }
        contents = await self._tiers.get(list(keys.values())) if keys else {}
        return [UnitText(unit_id, contents[key].decode()) for unit_id, key in keys.items()]

    async def _search(
        self,
        principal: Principal,
        delivery: Delivery,
        output: str,
        units: Sequence[UnitText],
        options: ReadOptions,
        found: Mapping[str, dict[ReferenceMethod, str]],
    ) -> None:
        """Adds citations and key phrases."""
        if len(output) + sum(len(unit.content) for unit in units) <= _INLINE_CHARACTERS:
            traces = find_traces(output, delivery.query_text, units)
        else:
            traces = await asyncio.to_thread(find_traces, output, delivery.query_text, units)
        for unit_id in traces.cited:
            found[unit_id][ReferenceMethod.CITATION] = "the output cites it"
        counts = PhraseCounts(0, {})
        if traces.phrases:
            read = await self._feedback.count_phrases(principal, traces.counted_phrases, COUNT_LIMIT, options)
            counts = read.result
        for unit_id, candidates in traces.phrases.items():
            if phrases := phrases_found(candidates, counts):
                quoted = ", ".join(f'"{phrase}"' for phrase in phrases)
                found[unit_id][ReferenceMethod.KEY_PHRASES] = f"the output holds {quoted}"

    async def _entail(
        self,
        output: str,
        units: Sequence[UnitText],
        options: ReadOptions,
        found: Mapping[str, dict[ReferenceMethod, str]],
    ) -> None:
        """Asks the plug-in about the units that no cheaper and surer method found; its faults are told in the log."""
        asked = [unit for unit in units if not found[unit.unit_id]]
        if self._entailment is None or not asked:
            return
        try:
            async with asyncio.timeout(options.timeout_ms / 1000 * _ENTAILMENT_SHARE):
                scores = await self._entailment.score(output, [unit.content for unit in asked])
            if len(scores) != len(asked) or any(math.isnan(score) or not 0 <= score <= 1 for score in scores):
                raise ValueError("a plug-in must give one probability in [0, 1] for each content")
        except Exception as error:  # foreign code: whatever it raises, the other methods stand
            _log.warning("entailment_failed", fault=describe_fault(error), units=len(asked))
            return
        for unit, score in zip(asked, scores, strict=True):
            if score > ENTAILMENT_THRESHOLD:
                found[unit.unit_id][ReferenceMethod.ENTAILMENT] = f"entailment {score:.2f}"


def _check_report(report: OutcomeReport) -> None:
    if not report.output.strip() and not report.cited_unit_ids and not report.decisive_unit_ids:
        raise InvalidArgument(
            ErrorReason.FIELD_REQUIRED,
            "output is empty and no unit is named: that nothing was used can be seen in an output only, and units "
            "taken for ignored without one would teach the predictor a falsehood",
            field="output",
        )
    size = len(report.output.encode(errors="replace"))
    if size > MAX_OUTPUT_BYTES:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"output has {size} bytes; send at most {MAX_OUTPUT_BYTES}: the part that answers the step",
            field="output",
            limit=MAX_OUTPUT_BYTES,
        )


def _check_delivered(report: OutcomeReport, delivery: Delivery) -> None:
    delivered = {unit.unit_id for unit in delivery.units}
    for name, unit_ids in (
        ("cited_unit_ids", report.cited_unit_ids),
        ("decisive_unit_ids", report.decisive_unit_ids),
    ):
        for index, unit_id in enumerate(unit_ids):
            if unit_id not in delivered:
                field = f"{name}[{index}]"
                raise InvalidArgument(
                    ErrorReason.FIELD_INVALID,
                    f"{field} is no unit that this retrieval delivered and that is still there",
                    field=field,
                    unit_id=unit_id,
                )
