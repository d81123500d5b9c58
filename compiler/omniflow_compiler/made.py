"""The files that are made from specs: what each kind is, and which names they have."""

from __future__ import annotations

MADE = {  # by kind: what it is, and what may be done with it
    "schedule": (
        "a compiled schedule",
        "check the program that it was compiled from; `omniflow run`, `why`, `diff` and `graph` take the schedule",
    ),
    "schedule-map": ("the map of places beside a compiled schedule", "name the schedule, or the program"),
    "run": ("the record of a run", "name the program that was run; `omniflow graph PROGRAM --run` draws the record"),
    "costs": ("what `omniflow calibrate` measured", "name the program; the compiler reads this file beside its card"),
}
RESERVED = {"run": "the record", "trace": "the trace"}  # names of outputs, and what stands in a file of that name
