# ruff: noqa: N802 - the methods have the names of the RPCs
"""PredictorService: messages in, use cases, messages out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphsvc.domain.predictors import CalibrationReport, Evaluation, PredictorVersion, ReferenceRate
from graphsvc.ranking.calibration import report_from_json
from graphsvc.server import convert
from graphsvc.server.requests import RequestReader
from graphsvc.v1 import core_pb2, predictor_service_pb2, predictor_service_pb2_grpc

if TYPE_CHECKING:
    from graphsvc.services.calibration import CalibrationUseCases

_LISTING = ("predictors",)


class PredictorService(predictor_service_pb2_grpc.PredictorServiceServicer):
    """The tenant's predictors: fitted, listed, rolled back."""

    def __init__(self, calibration: CalibrationUseCases, reader: RequestReader) -> None:
        self._calibration = calibration
        self._reader = reader

    async def RecalibratePredictor(
        self, request: predictor_service_pb2.RecalibratePredictorRequest, context: Any
    ) -> predictor_service_pb2.RecalibratePredictorResponse:
        """What a recalibration did."""
        write = self._reader.write(request, request.request_id)
        written = await self._calibration.recalibrate(self._reader.registrar(), write, force=request.force)
        version = written.result.version
        return predictor_service_pb2.RecalibratePredictorResponse(
            predictor=None if version is None else _predictor(version, in_use=version.version == written.result.in_use),
            detail=written.result.detail,
            replayed=written.replayed,
            revision=self._reader.revision(written) if written.bookmarks else None,
        )

    async def ListPredictors(
        self, request: predictor_service_pb2.ListPredictorsRequest, context: Any
    ) -> predictor_service_pb2.ListPredictorsResponse:
        """A page of versions, the newest first."""
        principal = self._reader.registrar()
        size = convert.page_size(request.page_size)
        after = self._reader.tokens.read_page_token(principal, _LISTING, request.page_token)
        history = (
            await self._calibration.list_predictors(principal, self._reader.read_options(request.consistency))
        ).result
        left = [one for one in reversed(history.versions) if after is None or one.version < int(after[1])]
        page = left[:size]
        token = ""
        if len(page) < len(left):
            token = self._reader.tokens.page_token(principal, _LISTING, (page[-1].created_time, str(page[-1].version)))
        return predictor_service_pb2.ListPredictorsResponse(
            predictors=[_predictor(one, in_use=one.version == history.in_use) for one in page],
            next_page_token=token,
            in_use_version=history.in_use,
        )

    async def RollBackPredictor(
        self, request: predictor_service_pb2.RollBackPredictorRequest, context: Any
    ) -> predictor_service_pb2.RollBackPredictorResponse:
        """The version that was in use before."""
        write = self._reader.write(request, request.request_id)
        written = await self._calibration.roll_back(self._reader.registrar(), request.version, write)
        return predictor_service_pb2.RollBackPredictorResponse(
            previous_version=written.result, revision=self._reader.revision(written)
        )


def _predictor(version: PredictorVersion, *, in_use: bool) -> predictor_service_pb2.Predictor:
    return predictor_service_pb2.Predictor(
        version=version.version,
        created_time=convert.timestamp(version.created_time),
        prior_version=version.prior_version,
        intercept=version.intercept,
        weights=version.weights,
        reference_rates=[
            predictor_service_pb2.KindReferenceRate(kind=convert.KINDS.to_proto(kind), rate=rate)
            for kind, rate in version.reference_rates.items()
        ],
        adopted=version.adopted,
        in_use=in_use,
        report=_report(report_from_json(version.report_json)),
    )


def _report(report: CalibrationReport) -> predictor_service_pb2.CalibrationReport:
    return predictor_service_pb2.CalibrationReport(
        in_use_version=report.in_use_version,
        fit_retrievals=report.fit_retrievals,
        fit_examples=report.fit_examples,
        left_out_retrievals=report.left_out_retrievals,
        held_out_retrievals=report.held_out_retrievals,
        held_out_examples=report.held_out_examples,
        in_use=_evaluation(report.in_use),
        candidate=_evaluation(report.candidate),
        brier_gain=report.brier_gain,
        brier_gain_error=report.brier_gain_error,
        slices=[
            predictor_service_pb2.CalibrationSlice(
                first_time=convert.timestamp(one.first_time),
                last_time=convert.timestamp(one.last_time),
                example_count=one.example_count,
                in_use_brier=one.in_use_brier,
                candidate_brier=one.candidate_brier,
                gain_error=one.gain_error,
            )
            for one in report.slices
        ],
        reasons=report.reasons,
    )


def _evaluation(evaluation: Evaluation) -> predictor_service_pb2.PredictorEvaluation:
    return predictor_service_pb2.PredictorEvaluation(
        brier=evaluation.brier,
        auc=evaluation.auc,
        auc_error=evaluation.auc_error,
        by_kind=[_rate(one) for one in evaluation.by_kind],
        by_decile=[_rate(one) for one in evaluation.by_decile],
    )


def _rate(rate: ReferenceRate) -> predictor_service_pb2.ReferenceRate:
    return predictor_service_pb2.ReferenceRate(
        kind=core_pb2.CONTEXT_UNIT_KIND_UNSPECIFIED if rate.kind is None else convert.KINDS.to_proto(rate.kind),
        lowest_value=rate.lowest_value,
        highest_value=rate.highest_value,
        count=rate.count,
        expected=rate.expected,
        observed=rate.observed,
    )
