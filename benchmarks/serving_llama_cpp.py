"""llama.cpp (`llama-cpp-python`) on a GGUF file made of the same weights: one batch of all sequences per step."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from serving_clock import Clock
from serving_contestant import Form, answer
from workload import Outcome, Request

KINDS = {"int8": "Q8_0", "int4": "Q4_0", "float32": "F32", "bfloat16": "BF16"}
CELLS, SEQUENCES, ROWS_PER_STEP = 8192, 64, 64


def make(arguments: Sequence[str]) -> tuple[str, Mapping[str, Form]]:
    import llama_cpp
    import serving_gguf

    folder, dtype, threads, quantize = arguments
    kind = KINDS[dtype if quantize == "none" else quantize]
    llama_cpp.llama_log_set(_SILENT, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "model.gguf"
        serving_gguf.write(Path(folder), path, kind)
        settings = llama_cpp.llama_model_default_params()
        settings.use_mmap = False  # the file goes, the weights stay
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), settings)
    context = _context(llama_cpp, model, int(threads), kind)
    vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    server = Server(llama_cpp, context, vocab)
    return f"{llama_cpp.__version__}, {kind}", {"engine": partial(serve, server)}


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _SILENT(level: int, text: bytes, data: Any) -> None:  # noqa: N802  a value: what C calls with every line of its log
    pass


def _context(llama: Any, model: Any, threads: int, kind: str) -> Any:
    settings = llama.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = CELLS, 512, 512
    settings.n_seq_max, settings.kv_unified = SEQUENCES, True
    settings.n_threads = settings.n_threads_batch = threads
    settings.no_perf = True
    if kind == "F32":
        settings.type_k = settings.type_v = llama.GGML_TYPE_F32
    return llama.llama_init_from_model(model, settings)


@dataclass(slots=True, kw_only=True)
class _Live:
    index: int
    pending: list[int]  # prompt tokens not yet given, or the token sampled last
    left: int
    past: int = 0


class Server:
    """Continuous batching over the library's batch: decode rows first, then prompts in chunks."""

    def __init__(self, llama: Any, context: Any, vocab: int) -> None:
        self._llama, self._context, self._vocab = llama, context, vocab
        self._memory = llama.llama_get_memory(context)
        self._batch = llama.llama_batch_init(512, 0, 1)

    def step(self, live: Sequence[_Live]) -> list[tuple[_Live, int]]:
        """One `llama_decode`; the requests that got a token and which."""
        room, batch = ROWS_PER_STEP, self._batch
        batch.n_tokens = 0
        last: list[tuple[_Live, int]] = []
        for item in sorted(live, key=lambda one: len(one.pending) > 1):
            count = min(len(item.pending), room)
            for i in range(count):
                is_last = i + 1 == len(item.pending)
                self._add(item.pending[i], item.past + i, item.index % SEQUENCES, is_last)
                if is_last:
                    last.append((item, batch.n_tokens - 1))
            del item.pending[:count]
            item.past += count
            room -= count
        if (status := self._llama.llama_decode(self._context, batch)) != 0:
            raise RuntimeError(f"llama_decode says {status}")
        return [(item, self._best(row)) for item, row in last]

    def forget(self, item: _Live) -> None:
        """Frees the cells of a request."""
        self._llama.llama_memory_seq_rm(self._memory, item.index % SEQUENCES, -1, -1)

    def _add(self, token: int, position: int, sequence: int, wanted: bool) -> None:
        batch, at = self._batch, self._batch.n_tokens
        batch.token[at], batch.pos[at] = token, position
        batch.n_seq_id[at], batch.seq_id[at][0] = 1, sequence
        batch.logits[at] = wanted
        batch.n_tokens = at + 1

    def _best(self, row: int) -> int:
        import numpy as np

        logits = self._llama.llama_get_logits_ith(self._context, row)
        return int(np.ctypeslib.as_array(logits, shape=(self._vocab,)).argmax())


def serve(server: Server, requests: Sequence[Request]) -> Outcome:
    """Every request when it arrives."""
    clock, live = Clock(requests), list[_Live]()
    while not clock.is_over:
        for index, request in clock.due():
            live.append(_Live(index=index, pending=list(request.prompt), left=request.new))
        if not live:
            clock.sleep()
            continue
        for item, token in server.step(live):
            clock.tokens(item.index, [token])
            item.pending.append(token)
            item.left -= 1
            if item.left == 0:
                server.forget(item)
                live.remove(item)
    return clock.outcome()


if __name__ == "__main__":
    answer(make)
