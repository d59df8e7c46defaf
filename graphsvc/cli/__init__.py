"""The command line: ``graphsvc COMMAND``.

A command's module is imported when the command runs, and not before: the stores and Neo4j's driver take a second.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import typer

from graphsvc.domain.errors import GraphsvcError

_HELP = """Context that is worth its tokens, under a hard budget, explained.

\b
  graphsvc up                       start Neo4j, S3 and the service on this machine
  graphsvc ingest git .             files, commits and imports of this repository become units with typed edges
  graphsvc retrieve "how does ...?" what of it is worth 2000 tokens, and why
  graphsvc doctor                   what is wrong, and what to do about it
"""


@dataclass(frozen=True, slots=True)
class _Command:
    """Where a command is: ``attribute`` of ``module`` is its function, or a Typer application with subcommands."""

    name: str
    module: str
    attribute: str
    help: str


_COMMANDS = (
    _Command("up", "graphsvc.cli.up", "up", "Start Neo4j, S3 and the gRPC service, until Ctrl-C."),
    _Command("serve", "graphsvc.cli.serve", "serve", "Serve gRPC on a Neo4j and an S3 that run already."),
    _Command("demo", "graphsvc.cli.demo", "demo", "Ingest this repository and ask it three questions."),
    _Command("doctor", "graphsvc.cli.doctor", "doctor", "Check the installation and say what to do about faults."),
    _Command("ingest", "graphsvc.cli.ingest", "application", "Write a repository or documents as units."),
    _Command("retrieve", "graphsvc.cli.retrieve", "retrieve", "Select the context worth its tokens."),
    _Command("explain", "graphsvc.cli.explain", "explain", "Show why a retrieval chose what it chose."),
    _Command(
        "report-outcome", "graphsvc.cli.report_outcome", "report_outcome", "Record what a model made of a retrieval."
    ),
    _Command("recalibrate", "graphsvc.cli.predictors", "recalibrate", "Fit the predictor to the feedback so far."),
    _Command("predictors", "graphsvc.cli.predictors", "application", "List predictors; go back to one."),
    _Command("key", "graphsvc.cli.key", "application", "Create, list and revoke API keys."),
    _Command("policy", "graphsvc.cli.policy", "application", "Share units between agents and sessions."),
    _Command("tenant", "graphsvc.cli.tenant", "application", "Create tenants."),
    _Command("settings", "graphsvc.cli.settings", "settings", "List every GRAPHSVC_* variable."),
    _Command("version", "graphsvc.cli.settings", "version", "Print the version."),
)


def application(chosen: str = "") -> typer.Typer:
    """The command line's application.

    Args:
        chosen: name of the command that is going to run; of the others only name and help are known.
    """
    result = typer.Typer(
        name="graphsvc",
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        # A traceback's local variables hold credentials; unexpected errors are printed plainly.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
    )
    for command in _COMMANDS:
        if command.name != chosen:
            result.command(command.name, help=command.help)(_not_loaded)
            continue
        loaded: object = getattr(importlib.import_module(command.module), command.attribute)
        if isinstance(loaded, typer.Typer):
            result.add_typer(loaded, name=command.name, help=command.help)
        else:
            run = cast("Callable[..., None]", loaded)
            result.command(command.name)(run)
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.

    Args:
        arguments: without the program's name; None: the process's.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    chosen = next((word for word in words if not word.startswith("-")), "")
    try:
        application(chosen)(words, prog_name="graphsvc")
    except GraphsvcError as error:
        _fail(f"{error.message} ({error.reason})")
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except Exception as error:
        # The client, and with it gRPC, is loaded only by commands that call the service.
        from graphsvc.client import GraphsvcCallError

        if not isinstance(error, GraphsvcCallError):
            raise
        _fail(error.message + f" ({error.reason or error.code})")


def _fail(message: str, code: int = 1) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"graphsvc: {' '.join(message.split())}\n")
    sys.exit(code)


def _not_loaded() -> None:
    """Stands for a command that was not chosen."""
