import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from graphsvc.v1 import core_pb2 as _core_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Predictor(_message.Message):
    __slots__ = ("version", "created_time", "prior_version", "intercept", "weights", "reference_rates", "adopted", "in_use", "report")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    PRIOR_VERSION_FIELD_NUMBER: _ClassVar[int]
    INTERCEPT_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_RATES_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    IN_USE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    version: int
    created_time: _timestamp_pb2.Timestamp
    prior_version: str
    intercept: float
    weights: _containers.ScalarMap[str, float]
    reference_rates: _containers.RepeatedCompositeFieldContainer[KindReferenceRate]
    adopted: bool
    in_use: bool
    report: CalibrationReport
    def __init__(self, version: _Optional[int] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., prior_version: _Optional[str] = ..., intercept: _Optional[float] = ..., weights: _Optional[_Mapping[str, float]] = ..., reference_rates: _Optional[_Iterable[_Union[KindReferenceRate, _Mapping]]] = ..., adopted: _Optional[bool] = ..., in_use: _Optional[bool] = ..., report: _Optional[_Union[CalibrationReport, _Mapping]] = ...) -> None: ...

class KindReferenceRate(_message.Message):
    __slots__ = ("kind", "rate")
    KIND_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    kind: _core_pb2.ContextUnitKind
    rate: float
    def __init__(self, kind: _Optional[_Union[_core_pb2.ContextUnitKind, str]] = ..., rate: _Optional[float] = ...) -> None: ...

class CalibrationReport(_message.Message):
    __slots__ = ("in_use_version", "fit_retrievals", "fit_examples", "held_out_retrievals", "held_out_examples", "in_use", "candidate", "brier_gain", "brier_gain_error", "slices", "reasons", "left_out_retrievals")
    IN_USE_VERSION_FIELD_NUMBER: _ClassVar[int]
    FIT_RETRIEVALS_FIELD_NUMBER: _ClassVar[int]
    FIT_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    HELD_OUT_RETRIEVALS_FIELD_NUMBER: _ClassVar[int]
    HELD_OUT_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    IN_USE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    BRIER_GAIN_FIELD_NUMBER: _ClassVar[int]
    BRIER_GAIN_ERROR_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_RETRIEVALS_FIELD_NUMBER: _ClassVar[int]
    in_use_version: int
    fit_retrievals: int
    fit_examples: int
    held_out_retrievals: int
    held_out_examples: int
    in_use: PredictorEvaluation
    candidate: PredictorEvaluation
    brier_gain: float
    brier_gain_error: float
    slices: _containers.RepeatedCompositeFieldContainer[CalibrationSlice]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    left_out_retrievals: int
    def __init__(self, in_use_version: _Optional[int] = ..., fit_retrievals: _Optional[int] = ..., fit_examples: _Optional[int] = ..., held_out_retrievals: _Optional[int] = ..., held_out_examples: _Optional[int] = ..., in_use: _Optional[_Union[PredictorEvaluation, _Mapping]] = ..., candidate: _Optional[_Union[PredictorEvaluation, _Mapping]] = ..., brier_gain: _Optional[float] = ..., brier_gain_error: _Optional[float] = ..., slices: _Optional[_Iterable[_Union[CalibrationSlice, _Mapping]]] = ..., reasons: _Optional[_Iterable[str]] = ..., left_out_retrievals: _Optional[int] = ...) -> None: ...

class PredictorEvaluation(_message.Message):
    __slots__ = ("brier", "auc", "auc_error", "by_kind", "by_decile")
    BRIER_FIELD_NUMBER: _ClassVar[int]
    AUC_FIELD_NUMBER: _ClassVar[int]
    AUC_ERROR_FIELD_NUMBER: _ClassVar[int]
    BY_KIND_FIELD_NUMBER: _ClassVar[int]
    BY_DECILE_FIELD_NUMBER: _ClassVar[int]
    brier: float
    auc: float
    auc_error: float
    by_kind: _containers.RepeatedCompositeFieldContainer[ReferenceRate]
    by_decile: _containers.RepeatedCompositeFieldContainer[ReferenceRate]
    def __init__(self, brier: _Optional[float] = ..., auc: _Optional[float] = ..., auc_error: _Optional[float] = ..., by_kind: _Optional[_Iterable[_Union[ReferenceRate, _Mapping]]] = ..., by_decile: _Optional[_Iterable[_Union[ReferenceRate, _Mapping]]] = ...) -> None: ...

class ReferenceRate(_message.Message):
    __slots__ = ("kind", "lowest_value", "highest_value", "count", "expected", "observed")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOWEST_VALUE_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_VALUE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    kind: _core_pb2.ContextUnitKind
    lowest_value: float
    highest_value: float
    count: int
    expected: float
    observed: float
    def __init__(self, kind: _Optional[_Union[_core_pb2.ContextUnitKind, str]] = ..., lowest_value: _Optional[float] = ..., highest_value: _Optional[float] = ..., count: _Optional[int] = ..., expected: _Optional[float] = ..., observed: _Optional[float] = ...) -> None: ...

class CalibrationSlice(_message.Message):
    __slots__ = ("first_time", "last_time", "example_count", "in_use_brier", "candidate_brier", "gain_error")
    FIRST_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TIME_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    IN_USE_BRIER_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_BRIER_FIELD_NUMBER: _ClassVar[int]
    GAIN_ERROR_FIELD_NUMBER: _ClassVar[int]
    first_time: _timestamp_pb2.Timestamp
    last_time: _timestamp_pb2.Timestamp
    example_count: int
    in_use_brier: float
    candidate_brier: float
    gain_error: float
    def __init__(self, first_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., example_count: _Optional[int] = ..., in_use_brier: _Optional[float] = ..., candidate_brier: _Optional[float] = ..., gain_error: _Optional[float] = ...) -> None: ...

class RecalibratePredictorRequest(_message.Message):
    __slots__ = ("request_id", "force")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    force: bool
    def __init__(self, request_id: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class RecalibratePredictorResponse(_message.Message):
    __slots__ = ("predictor", "detail", "replayed", "revision")
    PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    predictor: Predictor
    detail: str
    replayed: bool
    revision: _core_pb2.RevisionToken
    def __init__(self, predictor: _Optional[_Union[Predictor, _Mapping]] = ..., detail: _Optional[str] = ..., replayed: _Optional[bool] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...

class ListPredictorsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "consistency")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    consistency: _core_pb2.Consistency
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., consistency: _Optional[_Union[_core_pb2.Consistency, _Mapping]] = ...) -> None: ...

class ListPredictorsResponse(_message.Message):
    __slots__ = ("predictors", "next_page_token", "in_use_version")
    PREDICTORS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IN_USE_VERSION_FIELD_NUMBER: _ClassVar[int]
    predictors: _containers.RepeatedCompositeFieldContainer[Predictor]
    next_page_token: str
    in_use_version: int
    def __init__(self, predictors: _Optional[_Iterable[_Union[Predictor, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., in_use_version: _Optional[int] = ...) -> None: ...

class RollBackPredictorRequest(_message.Message):
    __slots__ = ("request_id", "version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    version: int
    def __init__(self, request_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class RollBackPredictorResponse(_message.Message):
    __slots__ = ("previous_version", "revision")
    PREVIOUS_VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    previous_version: int
    revision: _core_pb2.RevisionToken
    def __init__(self, previous_version: _Optional[int] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...
