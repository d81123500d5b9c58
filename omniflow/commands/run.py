"""`omniflow run`: one request from inputs to files."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from omniflow.artefacts import Artefact, artefact
from omniflow.batcher import Limits
from omniflow.catalog import find_spec
from omniflow.commands.printing import Printer, complain
from omniflow.commands.progress import Progress, make_progress
from omniflow.commands.report import compare, show
from omniflow.commands.threads import choose_threads
from omniflow.commands.values import read_inputs
from omniflow.engine import Engine
from omniflow.errors import InputError, OmniFlowError
from omniflow.files import WriteError, one_at_a_time, write_bytes
from omniflow.idle import idle_encoders
from omniflow.inputs import check_inputs
from omniflow.loading import compile, load
from omniflow.params import read_params
from omniflow.request import Result, State
from omniflow.trace import chrome_trace
from omniflow_compiler.reader import read_schedule
from omniflow_compiler.schedule import Schedule, ScheduleError

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
RECORD = "run.json"


def run(
    schedule: Schedule | str | Path,
    *,
    inputs: Mapping[str, str | list[str]],
    out: Path,
    seed: int,
    profile: str,
    as_json: bool,
    trace: bool,
    params: Mapping[str, str] | None = None,
    rng: str = "derived",
    limits: Limits | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
    report: bool = False,
) -> int:
    """Runs one request and writes its artefacts into `out`; returns the exit code.

    schedule: compiled already, or the path or catalogue name of a program or schedule file.
    """
    try:
        compiled = schedule if isinstance(schedule, Schedule) else _find(schedule)
        values = read_inputs(compiled, inputs)
        check_inputs(compiled, values)
        own = read_params(compiled, params or {})
        _check_folder(out)
        choose_threads(compiled)
        idle = idle_encoders(compiled, values)
        engine = load(compiled, limits=limits, profile=profile, trace=trace, faults=faults, experts=idle)
        printer = Printer(sys.stdout)
        progress = make_progress(compiled, printer, quiet=as_json)
        request = engine.submit(values, params=own, seed=seed, rng=rng, listener=progress.piece)
        result = _wait(engine, request, progress)
        code = _report(engine, result, out, printer, as_json=as_json)
        if report:
            Printer(sys.stderr).line(show(compare(compiled, result.record), compiled.stages[0].place.file))
        return code
    except InputError as error:
        return _say(str(error), MISUSED)
    except (OmniFlowError, ScheduleError, WriteError) as error:
        return _say(str(error), FAILED)


def _find(spec: str | Path) -> Schedule:
    path = find_spec(str(spec))
    return read_schedule(path) if path.suffix == ".json" else compile(path)


def _check_folder(out: Path) -> None:
    """Finds out before anything is loaded whether files can be written there. Errors: WriteError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except (FileExistsError, NotADirectoryError):
        raise WriteError(f"cannot write into {out}: it is not a folder") from None
    except OSError as error:
        raise WriteError(f"cannot write into {out}: {(error.strerror or 'error').lower()}") from None


def _wait(engine: Engine, request: int, progress: Progress) -> Result:
    with progress, _stopping_at_units(engine, request):
        while (result := engine.result(request)) is None:
            if not engine.step():
                engine.sleep()
            progress.tick(engine, request)
    return result


@contextmanager
def _stopping_at_units(engine: Engine, request: int) -> Iterator[None]:
    """The first Ctrl-C ends the request at its next unit; a second one interrupts at once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        engine.cancel(request)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _report(engine: Engine, result: Result, out: Path, printer: Printer, *, as_json: bool) -> int:
    """Writes the files; a run that failed before anything came of it leaves the folder as it was."""
    outputs = list(_outputs(engine, result))
    is_kept = result.state in (State.DONE, State.CANCELLED) or bool(outputs)
    record = _write(engine, result, out, outputs) if is_kept else result.record
    if as_json:
        printer.line(json.dumps(record, indent=1, ensure_ascii=False))
    if result.state is State.CANCELLED:
        return _say("interrupted; what was whole is kept", INTERRUPTED)
    if result.state is not State.DONE:
        if is_kept:
            _say(f"what came before is in {out}: {', '.join(record['files'])}", FAILED)
        return _say(result.error or f"the request was {result.state}", FAILED)
    (Printer(sys.stderr) if as_json else printer).line(closing_line(result.record))
    if printer.is_full:
        return _say(f"cannot write the output: {printer.problem}; the files in {out} are whole", FAILED)
    return OK


def _write(engine: Engine, result: Result, out: Path, outputs: Sequence[Artefact]) -> Mapping[str, Any]:
    """Writes outputs, trace and, last, the record, which names them all; what an earlier run left then goes.

    A run that did not go through takes nothing away. Returns the record.
    """
    artefacts = [*outputs, *_trace(engine)]
    names = sorted([*(file.name for file in artefacts), RECORD])
    record = {**result.record, "files": names}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    with one_at_a_time(out):
        earlier = _earlier(out) if result.state is State.DONE else set()
        for file in (*artefacts, Artefact(name=RECORD, data=text.encode())):
            write_bytes(out / file.name, file.data)
        for name in earlier.difference(names):
            (out / name).unlink(missing_ok=True)
    return record


def _earlier(out: Path) -> set[str]:
    """The files that earlier runs left there, as their record names them, and outputs that were cut off."""
    try:
        record = json.loads((out / RECORD).read_text("utf-8"))
        files = [*record["files"], *(path.name for name in record["outputs"] for path in out.glob(f"{name}.partial.*"))]
        return {name for name in files if Path(name).name == name and (out / name).is_file()}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _outputs(engine: Engine, result: Result) -> Iterator[Artefact]:
    """What came of each output, whole or not."""
    for spec in engine.schedule.outputs:
        known = result.record["outputs"].get(spec.name)
        if known is not None and (known["whole"] or known["elements"]):
            yield artefact(spec, result.outputs[spec.name], is_whole=known["whole"])


def _trace(engine: Engine) -> Iterator[Artefact]:
    if engine.trace is not None:
        yield Artefact(name="trace.json", data=chrome_trace(engine.trace, engine.schedule).encode())


def closing_line(record: Mapping[str, Any]) -> str:
    """Tokens, seconds of audio, times to first text and audio, real-time factor: those that there are."""
    parts = [f"{record['tokens']} tokens"] if record["tokens"] else []
    if record["audio_seconds"]:
        parts.append(f"{record['audio_seconds']:.2f} s of audio")
    if record["time_to_first_text"] is not None:
        parts.append(f"first text after {record['time_to_first_text']:.2f} s")
    if record["time_to_first_audio"] is not None:
        parts.append(f"first audio after {record['time_to_first_audio']:.2f} s")
    if record["real_time_factor"] is not None:
        parts.append(f"real-time factor {record['real_time_factor']:.2f}")
    return ", ".join([*parts, f"{record['seconds']:.2f} s in all"])


def _say(line: str, code: int) -> int:
    complain(line)
    return code
