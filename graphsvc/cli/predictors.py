"""``graphsvc recalibrate`` and ``graphsvc predictors``: the tenant's predictor of what a unit is worth (role admin)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graphsvc.cli.output import (
    ApiKeyOption,
    CertificatesOption,
    ClientOptions,
    JsonOption,
    StateDirOption,
    TargetOption,
    TlsOption,
    client_for,
    out,
    print_json,
    run,
)
from graphsvc.client import PredictorInfo, RecalibrationInfo
from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.domain.predictors import SHARED_PRIOR_VERSION, CalibrationReport, Evaluation, ReferenceRate

application = typer.Typer(no_args_is_help=True)


def recalibrate(
    force: Annotated[bool, typer.Option("--force", help="Fit although it is not due yet.")] = False,
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Fit the predictor to the feedback so far, and use it if it is better on feedback kept out of the fit."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> RecalibrationInfo:
        async with client_for(options) as client:
            return await client.recalibrate(force=force)

    done = run(work())
    if as_json:
        print_json(done)
    elif done.predictor is None:
        typer.echo(done.detail)
    else:
        print_predictor(done.predictor, out())


@application.command("list")
def list_command(
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """List the versions, the newest first, those that were not adopted too."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> list[PredictorInfo]:
        async with client_for(options) as client:
            return [one async for one in client.list_predictors()]

    found = run(work())
    if as_json:
        print_json(found)
    else:
        print_versions(found, out())


@application.command()
def show(
    version: Annotated[int, typer.Argument(min=1, help="The version, as listed.")],
    as_json: JsonOption = False,
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Show how a version was measured: expected against observed references, by kind and by tenth of the units."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> PredictorInfo:
        async with client_for(options) as client:
            async for one in client.list_predictors():
                if one.version == version:
                    return one
        raise NotFound(
            ErrorReason.PREDICTOR_NOT_FOUND,
            f"the tenant has no predictor version {version}: `graphsvc predictors list` shows them",
        )

    found = run(work())
    if as_json:
        print_json(found)
    else:
        print_predictor(found, out())


@application.command("roll-back")
def roll_back(
    version: Annotated[int, typer.Argument(min=0, help="The version to use, as listed; 0: the shared prior.")],
    target: TargetOption = None,
    api_key: ApiKeyOption = None,
    state_dir: StateDirOption = None,
    certificates: CertificatesOption = None,
    tls: TlsOption = False,
) -> None:
    """Use a version again, at once. The next recalibration measures its candidate against it."""
    options = ClientOptions(target, api_key, state_dir, certificates, tls)

    async def work() -> int:
        async with client_for(options) as client:
            return await client.roll_back_predictor(version)

    before = run(work())
    typer.echo(f"{name_of(version)} is in use; before: {name_of(before)}")


def name_of(version: int) -> str:
    """What a person calls a version."""
    return "the shared prior" if version == SHARED_PRIOR_VERSION else f"version {version}"


def print_versions(predictors: Sequence[PredictorInfo], console: Console) -> None:
    """Prints a row for each version.

    Args:
        predictors: the newest first.
        console: where to.
    """
    if not predictors:
        console.print("no predictors: the shared prior is in use", markup=False, highlight=False)
        return
    table = Table("version", "fitted", "retrievals", "Brier", "AUC", "adopted", "why", box=None, pad_edge=False)
    for one in predictors:
        report = one.report
        table.add_row(
            f"{one.version}{' in use' if one.in_use else ''}",
            f"{one.created_time:%Y-%m-%d %H:%M}",
            f"{report.fit_retrievals} + {report.held_out_retrievals}",
            f"{_number(report.in_use.brier, 4)} -> {_number(report.candidate.brier, 4)}",
            f"{_number(report.in_use.auc)} -> {_number(report.candidate.auc)}",
            "yes" if one.adopted else "no",
            Text("; ".join(report.reasons)),
            style="green" if one.in_use else "",
        )
    console.print(table)


def print_predictor(predictor: PredictorInfo, console: Console) -> None:
    """Prints how a version was measured: expected against observed references, by kind and by tenth of the units.

    Args:
        predictor: the version.
        console: where to.
    """
    report = predictor.report
    console.print(
        Text(
            f"version {predictor.version}: fitted on {report.fit_examples} delivered units of {report.fit_retrievals} "
            f"retrievals, measured against {name_of(report.in_use_version)} on {report.held_out_examples} units of "
            f"{report.held_out_retrievals} retrievals kept out of the fit",
            style="bold",
        )
    )
    if report.left_out_retrievals:
        console.print(
            Text(f"{report.left_out_retrievals} retrievals in a row contradict all others and were left out of the fit")
        )
    console.print(_scores(report))
    console.print(_rates("kind", "kind", report))
    console.print(_rates("tenth", "tenth of the units, lowest values first", report))
    verdict = "adopted" if predictor.adopted else "not adopted"
    console.print(Text(f"{verdict}: {'; '.join(report.reasons)}", style="green" if predictor.adopted else "yellow"))


def _scores(report: CalibrationReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("predictor")
    for name in ("Brier score", "AUC", "standard error"):
        table.add_column(name, justify="right")
    for name, found in (("in use", report.in_use), ("fitted", report.candidate)):
        table.add_row(name, _number(found.brier, 4), _number(found.auc), _number(found.auc_error))
    return table


def _rates(group: str, title: str, report: CalibrationReport) -> Table:
    """Both predictors beside each other; the tenths of one are not those of the other."""
    by_kind = group == "kind"
    table = Table(title=f"references by {title}", title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column(group)
    for name in ("in use: units", "expected", "observed", "fitted: units", "expected", "observed"):
        table.add_column(name, justify="right")
    sides = [_by_group(found, by_kind=by_kind) for found in (report.in_use, report.candidate)]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        cells = [cell for side in sides for cell in _cells(side.get(name))]
        table.add_row(name, *cells)
    return table


def _by_group(evaluation: Evaluation, *, by_kind: bool) -> dict[str, ReferenceRate]:
    if by_kind:
        return {one.kind.value: one for one in evaluation.by_kind if one.kind is not None}
    return {str(number): one for number, one in enumerate(evaluation.by_decile, 1)}


def _cells(rate: ReferenceRate | None) -> tuple[str, str, str]:
    return ("", "", "") if rate is None else (str(rate.count), f"{rate.expected:.3f}", f"{rate.observed:.3f}")


def _number(value: float | None, digits: int = 3) -> str:
    return "none" if value is None else f"{value:.{digits}f}"
