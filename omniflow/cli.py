"""The command line. Every command imports what it needs when it runs, so that `--help` and `check` start at once.

Exit codes: 0 fine, 1 faults in a spec or a failed run, 2 a bad command line, 3 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from omniflow.commands.selection import Selection

app = typer.Typer(
    name="omniflow",
    help="Check, compile, run and draw generative programs written as dataflow graphs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Spec = Annotated[str, typer.Argument(help="A spec file, or a name of the catalogue such as smol_speech.speech.")]
Outputs = Annotated[str | None, typer.Option(metavar="NAMES", help="Outputs to keep, separated by commas.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Value of a param.")]
Budgets = Annotated[list[str] | None, typer.Option("--budget", metavar="DEVICE=SIZE", help="Memory, e.g. cpu=2GiB.")]
Devices = Annotated[
    list[str] | None,
    typer.Option("--device", metavar="[COMPONENT=]DEVICE", help="Where components live, e.g. cuda or vocoder=cpu."),
]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="Run configuration (kind: config).")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Python file that adds experts; you decide what runs."),
]
Format = Annotated[str, typer.Option(help="How findings are written: text, json, sarif or github.")]
Deny = Annotated[list[str] | None, typer.Option(metavar="CODE", help="`warnings`, or a lint, to make an error.")]


@app.command()
def check(
    specs: Annotated[list[str], typer.Argument(help="Spec files or names of the catalogue.")],
    outputs: Outputs = None,
    settings: Settings = None,
    budgets: Budgets = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    format: Format = "text",
    deny: Deny = None,
    fix: Annotated[bool, typer.Option("--fix", help="Make the safe fixes first, in the files named.")] = False,
) -> None:
    """Check specs without loading anything."""
    from omniflow.commands.check import check_specs

    selected = [_select(spec, outputs, settings, budgets, devices, config, plugins) for spec in specs]
    selections = [replace(selection, deny=deny or ()) for selection in selected]
    if fix:
        from omniflow.commands.fix import fix_specs

        fix_specs(selections)
    raise typer.Exit(check_specs(selections, format=format))


@app.command()
def compile(
    spec: Spec,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Schedule file; - for standard output.")] = None,
    outputs: Outputs = None,
    settings: Settings = None,
    budgets: Budgets = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    explain: Annotated[
        str | None,
        typer.Option("--explain", metavar="[=json]", help="Say for every node why it is there and what it costs."),
    ] = None,
    dump_after: Annotated[
        str | None,
        typer.Option(metavar="PASS", help="Print the graph after resolve, build, types, streams, prune or plan."),
    ] = None,
    format: Format = "text",
    deny: Deny = None,
) -> None:
    """Compile a program to its schedule."""
    from omniflow.commands.compile import compile_spec

    selection = replace(_select(spec, outputs, settings, budgets, devices, config, plugins), deny=deny or ())
    code = compile_spec(selection, output=output, explain=explain, dump_after=dump_after, format=format)
    raise typer.Exit(code)


@app.command()
def why(
    spec: Annotated[str, typer.Argument(metavar="SCHEDULE", help="A schedule, a spec or a name of the catalogue.")],
    node: Annotated[str, typer.Argument(help="The node's id.")],
    outputs: Outputs = None,
    settings: Settings = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why a node is there, where it runs, what it costs and what memory it holds."""
    from omniflow.commands.why import explain_node

    selection = _select(spec, outputs, settings, None, devices, config, plugins)
    raise typer.Exit(explain_node(selection, node, as_json=as_json))


@app.command()
def diff(
    before: Annotated[str, typer.Argument(help="A schedule, a spec or a name of the catalogue.")],
    after: Annotated[str, typer.Argument(help="What it is compared with.")],
    outputs: Outputs = None,
    plugins: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two schedules by meaning: exit code 0 when there is no difference, 1 when there is one."""
    from omniflow.commands.diff import compare_specs

    first, second = (_select(spec, outputs, None, None, None, None, plugins) for spec in (before, after))
    raise typer.Exit(compare_specs(first, second, as_json=as_json))


@app.command()
def run(
    spec: Spec,
    inputs: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="An input.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the artefacts.")] = Path("omniflow-out"),
    outputs: Outputs = None,
    settings: Settings = None,
    budgets: Budgets = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NODE.ATTRIBUTE=VALUE", help="For this request, e.g. speak.temperature=0.9."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of everything random.")] = 0,
    rng: Annotated[
        str, typer.Option(help="derived, or torch: one generator drawn node after node, as transformers draws.")
    ] = "derived",
    profile: Annotated[str | None, typer.Option(help="serve, rollout or test; by default serve.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run record.")] = False,
    trace: Annotated[bool, typer.Option("--trace/--no-trace", help="Write trace.json.")] = True,
    report: Annotated[bool, typer.Option("--report", help="Compare predicted with measured seconds.")] = False,
) -> None:
    """Run a program: a spec, a compiled schedule or a name of the catalogue."""
    from omniflow.commands.launch import launch

    selection = _select(spec, outputs, settings, budgets, devices, config, plugins)
    code = launch(
        selection, inputs=inputs or [], params=params or [], out=out, seed=seed, rng=rng, profile=profile,
        as_json=as_json, trace=trace, report=report,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def serve(
    spec: Spec,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    outputs: Outputs = None,
    settings: Settings = None,
    budgets: Budgets = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    running: Annotated[int | None, typer.Option(min=1, help="Most requests in work at once.")] = None,
    queued: Annotated[int | None, typer.Option(min=1, help="Most requests that wait; others are told 429.")] = None,
    body: Annotated[str, typer.Option(metavar="SIZE", help="Largest body of a request.")] = "64MiB",
    grace: Annotated[int, typer.Option(metavar="SECONDS", min=0, help="For requests in work, when it ends.")] = 10,
    profile: Annotated[str | None, typer.Option(help="serve, rollout or test; by default serve.")] = None,
) -> None:
    """Serve a program over HTTP: requests, streams, metrics, and OpenAI's forms of chats, speech and pictures."""
    from omniflow.commands.arguments import parse_size
    from omniflow.commands.serve import serve_spec

    selection = _select(spec, outputs, settings, budgets, devices, config, plugins)
    code = serve_spec(
        selection, host=host, port=port, running=running, queued=queued, body_bytes=parse_size(body, "--body"),
        grace_s=grace, profile=profile,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def graph(
    spec: Spec,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File by suffix: .svg .png .html .mmd .dot .json; - for standard output."),
    ] = None,
    format: Annotated[str | None, typer.Option(help="svg, png, html, mmd, dot or json; else by suffix.")] = None,
    outputs: Outputs = None,
    settings: Settings = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    run: Annotated[Path | None, typer.Option(help="A run.json to paint on the graph.")] = None,
) -> None:
    """Draw a program."""
    from omniflow.commands.sketch import sketch

    selection = _select(spec, outputs, settings, None, devices, config, plugins)
    raise typer.Exit(sketch(selection, output=output, format=format, run=run))


@app.command()
def config(
    spec: Spec,
    settings: Settings = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every value of a program and where it came from."""
    from omniflow.commands.config import show_config

    raise typer.Exit(show_config(_select(spec, None, settings, None, devices, config, plugins), as_json=as_json))


@app.command()
def verify(
    spec: Spec,
    inputs: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="An input.")] = None,
    requests: Annotated[int, typer.Option(min=2, max=64, help="Requests to compare.")] = 6,
    settings: Settings = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
    batch_invariant: Annotated[bool, typer.Option(help="Every bit must agree, whatever the batch.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a program in every mode and compare the answers."""
    from omniflow.commands.verify import verify_spec

    selection = _select(spec, None, settings, None, devices, config, plugins)
    code = verify_spec(
        selection, inputs=inputs or [], requests=requests, batch_invariant=batch_invariant, as_json=as_json
    )
    raise typer.Exit(code)


@app.command()
def calibrate(
    spec: Annotated[str, typer.Argument(metavar="PROGRAM", help="A program, or a name of the catalogue.")],
    inputs: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="An input.")] = None,
    requests: Annotated[int, typer.Option(min=1, max=64, help="Requests to measure.")] = 4,
    settings: Settings = None,
    devices: Devices = None,
    config: Config = None,
    plugins: Plugins = None,
) -> None:
    """Measure what units cost on this machine and keep it beside the card."""
    from omniflow.commands.calibrate import calibrate_spec

    selection = _select(spec, None, settings, None, devices, config, plugins)
    raise typer.Exit(calibrate_spec(selection, inputs=inputs or [], requests=requests))


@app.command()
def fmt(
    paths: Annotated[list[Path], typer.Argument(metavar="FILES", help="Spec files or folders; - for standard input.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 when a layout would change.")
    ] = False,
) -> None:
    """Lay spec files out: columns, order of keys, comments kept."""
    from omniflow.commands.fmt import format_files

    raise typer.Exit(format_files(paths, check=check))


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="card, program, graph, workflow or config.")],
    plugins: Plugins = None,
) -> None:
    """Print the JSON Schema of a kind of spec, complete with ops, loops and experts, for editors."""
    from omniflow.commands.schema import print_schema

    raise typer.Exit(print_schema(kind, plugins or []))


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Name of the card and of the new folder.")],
    template: Annotated[str, typer.Option(help="text, speech or image.")] = "speech",
    parent: Annotated[Path, typer.Option("--in", metavar="FOLDER", help="Where the folder is made.")] = Path(),
) -> None:
    """Start a card and a program, commented and ready to run."""
    from omniflow.commands.init import start_project

    raise typer.Exit(start_project(name, template=template, parent=parent))


@app.command()
def lsp(plugins: Plugins = None) -> None:
    """Serve an editor: faults, types, definitions, completion, layout and fixes of specs."""
    from omniflow.commands.lsp import serve

    raise typer.Exit(serve(plugins or []))


@app.command()
def explain(code: Annotated[str, typer.Argument(help="A code such as OF2103; without one, all of them.")] = "") -> None:
    """Explain a diagnostic."""
    from omniflow.commands.explain import explain_code

    raise typer.Exit(explain_code(code))


def _select(
    spec: str,
    outputs: str | None,
    settings: list[str] | None,
    budgets: list[str] | None,
    devices: list[str] | None,
    config: Path | None,
    plugins: list[Path] | None,
) -> Selection:
    from omniflow.commands.selection import Selection

    return Selection(
        spec=spec,
        outputs=outputs,
        settings=settings or (),
        budgets=budgets or (),
        devices=devices or (),
        config=config,
        plugins=plugins or (),
    )


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
    from omniflow.commands.guard import guarded

    arguments = ["--explain=text" if argument == "--explain" else argument for argument in sys.argv[1:]]
    guarded(lambda: app(args=arguments))


if __name__ == "__main__":
    main()
