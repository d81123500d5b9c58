"""Programs over null experts whose inputs are the fields of OpenAI's forms: each changes what comes out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import omniflow
from omniflow import Schedule

NULL = Path(__file__).parents[2] / "specs" / "null"
RATE = 8000
SPEAK = """omniflow: 1
kind: program
id: fields.speech
card: null-frames
inputs:
  text: text
  speaker: {type: text, default: Ada}
  speed: {type: scalar, default: 1.0, min: 0.5, max: 2}
  instructions: {type: text, default: plainly}
outputs: {text: say.text, codes: speak.codes, audio: wave.audio}
nodes:
  paced: {op: caption, template: "{{ text }} {{ fps }}"}
  words: {op: tokenize, with: tokenizer}
  who: {op: tokenize, with: tokenizer}
  how: {op: tokenize, with: tokenizer}
  all: {op: concat}
  say: {op: detokenize, with: tokenizer}
  speak: {loop: speak}
  wave: {loop: wave}
edges:
  - text -> paced.text
  - speed -> paced.fps
  - paced.text -> words.text
  - speaker -> who.text
  - instructions -> how.text
  - words.tokens -> all.parts
  - who.tokens -> all.parts
  - how.tokens -> all.parts
  - all.whole -> speak.prompt
  - all.whole -> say.tokens
  - speak.codes ~> wave.codes: {chunk: 4, left_context: 2}
"""
PAINT = """omniflow: 1
kind: program
id: fields.image
card: null-image
inputs:
  prompt: text
  height: {type: scalar, default: 64, min: 1, max: 99}
  width: {type: scalar, default: 64, min: 1, max: 99}
outputs: {image: show.image}
nodes:
  sized: {op: caption, template: "{{ text }} {{ height }} by {{ width }}"}
  words: {op: tokenize, with: tokenizer}
  none: {op: ids, ids: [3]}
  read: {loop: read}
  read_none: {loop: read}
  paint: {loop: paint}
  show: {loop: show}
edges:
  - prompt -> sized.text
  - height -> sized.height
  - width -> sized.width
  - sized.text -> words.text
  - words.tokens -> read.tokens
  - none.tokens -> read_none.tokens
  - read.embeds -> paint.condition
  - read_none.embeds -> paint.unconditional
  - paint.latents -> show.latents
"""


def speaking(folder: Path) -> Schedule:
    """Texts to sound of 8 kHz, with a speaker, a speed and instructions."""
    schedule = _compiled(folder, "frames", SPEAK)
    timed = (replace(spec, type=replace(spec.type, rate_hz=float(RATE))) for spec in schedule.outputs)
    return replace(schedule, outputs=tuple(timed))


def painting(folder: Path) -> Schedule:
    """Prompts to pictures that depend on height and width (in all but their size)."""
    return _compiled(folder, "image", PAINT)


def _compiled(folder: Path, card: str, program: str) -> Schedule:
    shutil.copy(NULL / f"{card}.card.yaml", folder)
    path = folder / "fields.program.yaml"
    path.write_text(program, encoding="utf-8")
    return omniflow.compile(path)
