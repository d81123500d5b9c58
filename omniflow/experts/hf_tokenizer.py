"""The tokenizer of any Hugging Face model folder: `tokenizer.json` and its chat template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from omniflow.experts.chat_turns import turn
from omniflow.experts.hf_folder import read_json
from omniflow.experts.lean.errors import CheckpointError
from omniflow.roles import Message
from omniflow_compiler.schedule import Cache, Expert

MAX_TEMPLATE = 1 << 20
TEMPLATES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")


class HfTokenizer:
    """Role Tokenizer (omniflow.roles)."""

    def __init__(
        self, tokenizer: Tokenizer, template: Template | None, *, stop_ids: Sequence[int], folder: Path
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._stop_ids = tuple(stop_ids)
        self._folder = folder

    @property
    def stop_ids(self) -> Sequence[int]:
        """The ids that end a turn."""
        return self._stop_ids

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, nothing added."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the rendered conversation, open for the answer. Errors: ValueError when there is no template."""
        return self.encode(self._render(messages))

    def encode_turn(self, messages: Sequence[Message]) -> list[int]:
        """Ids of what comes behind a reply when the conversation goes on. Errors: ValueError as above."""
        return self.encode(turn(self._render, messages))

    def _render(self, messages: Sequence[Message]) -> str:
        if self._template is None:
            raise ValueError(f"{self._folder} has no chat template ({', '.join(TEMPLATES)}): use `tokenize`")
        try:
            return self._template.render(messages=list(messages), add_generation_prompt=True)
        except TemplateError as error:
            raise ValueError(f"the chat template of {self._folder} refuses the conversation: {error}") from None

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def load_tokenizer(spec: Expert, _cache: Cache | None) -> HfTokenizer:
    """The tokenizer of the component's folder. Errors: CheckpointError naming the file."""
    if spec.source is None or spec.source.startswith("$"):
        raise ValueError("it needs the folder of a checkpoint: --set weights=FOLDER")
    folder = Path(spec.source)
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{path}: not found; save the tokenizer in its fast form (AutoTokenizer.save_pretrained)")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001  the library raises bare Exception for any fault of the file
        raise CheckpointError(f"{path}: cannot be read as a tokenizer: {error}") from None
    return HfTokenizer(tokenizer, _template(folder), stop_ids=_stop_ids(folder), folder=folder)


def _template(folder: Path) -> Template | None:
    """The first chat template there is. Undefined names are empty, which is what published templates rely on."""
    for name in TEMPLATES:
        path = folder / name
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8") if path.suffix == ".jinja" else read_json(path).get("chat_template")
        if isinstance(text, str) and len(text) <= MAX_TEMPLATE:
            environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
            environment.globals["raise_exception"] = _refuse
            try:
                return environment.from_string(text)
            except TemplateError as error:
                raise CheckpointError(f"{path}: the chat template cannot be read: {error}") from None
    return None


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _stop_ids(folder: Path) -> Sequence[int]:
    path = folder / "generation_config.json"
    found = read_json(path).get("eos_token_id") if path.is_file() else None
    ids = found if isinstance(found, list) else [found]
    return [i for i in ids if isinstance(i, int) and not isinstance(i, bool)]
