"""The command line. Every command imports what it needs when it runs, so that `--help` and `check` start at once.

Exit codes: 0 fine, 1 faults in a spec or a failed run, 2 a bad command line, 3 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="omniflow",
    help="Check, compile, run and draw generative programs written as dataflow graphs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Spec = Annotated[str, typer.Argument(help="A spec file, or a name of the catalogue such as smol_speech.speech.")]
Outputs = Annotated[
    str | None, typer.Option("--outputs", metavar="NAMES", help="Outputs to keep, separated by commas.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Value of a param; may be repeated.")
]
Budgets = Annotated[
    list[str] | None, typer.Option("--budget", metavar="DEVICE=SIZE", help="Memory of a device, e.g. cpu=2GiB.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Python file that adds experts; you decide what runs."),
]


@app.command()
def check(
    specs: Annotated[list[str], typer.Argument(help="Spec files or names of the catalogue.")],
    settings: Settings = None,
    format: Annotated[str, typer.Option("--format", help="text, json, sarif or github.")] = "text",
) -> None:
    """Check specs without loading anything."""
    from omniflow.commands.check import check_specs

    raise typer.Exit(check_specs(specs, settings=settings or [], format=format))


@app.command()
def compile(
    spec: Spec,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Schedule file; - for standard output.")] = None,
    outputs: Outputs = None,
    settings: Settings = None,
    budgets: Budgets = None,
) -> None:
    """Compile a program to its schedule."""
    from omniflow.commands.compile import compile_spec

    raise typer.Exit(compile_spec(spec, output=output, outputs=outputs, settings=settings or [], budgets=budgets or []))


@app.command()
def run(
    spec: Spec,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="An input; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the artefacts.")] = Path("omniflow-out"),
    outputs: Outputs = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of everything random.")] = 0,
    profile: Annotated[str, typer.Option("--profile", help="serve or rollout.")] = "serve",
    as_json: Annotated[bool, typer.Option("--json", help="Print the run record.")] = False,
    trace: Annotated[bool, typer.Option("--trace/--no-trace", help="Write trace.json.")] = True,
) -> None:
    """Run a program: a spec, a compiled schedule or a name of the catalogue."""
    from omniflow.commands.launch import launch

    raise typer.Exit(
        launch(
            spec,
            inputs=inputs or [],
            out=out,
            outputs=outputs,
            settings=settings or [],
            seed=seed,
            profile=profile,
            as_json=as_json,
            trace=trace,
        )
    )


@app.command()
def graph(
    spec: Spec,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File by suffix: .svg .png .html .mmd .dot .json; - for standard output."),
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="svg, png, html, mmd, dot or json; else by suffix.")
    ] = None,
    outputs: Outputs = None,
    settings: Settings = None,
    run: Annotated[Path | None, typer.Option("--run", help="A run.json to paint on the graph.")] = None,
) -> None:
    """Draw a program."""
    from omniflow.commands.sketch import sketch

    raise typer.Exit(sketch(spec, output=output, format=format, outputs=outputs, settings=settings or [], run=run))


@app.command()
def explain(code: Annotated[str, typer.Argument(help="A code such as OF2103; without one, all of them.")] = "") -> None:
    """Explain a diagnostic."""
    from omniflow.commands.explain import explain_code

    raise typer.Exit(explain_code(code))


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from omniflow_compiler.version import VERSION

        typer.echo(f"omniflow {VERSION}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Runs the command line; no user mistake ends in a traceback, and a bug of ours says how to report it."""
    from omniflow.catalog import UnknownSpec
    from omniflow.commands.arguments import BadArgument

    try:
        app()
    except (UnknownSpec, BadArgument) as error:
        print(f"omniflow: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        print("omniflow: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # whatever reaches this line is a bug of ours, and is reported as one
        from omniflow.commands.bug import report_bug

        sys.exit(report_bug(error, sys.argv[1:]))


if __name__ == "__main__":
    main()
