"""What weights in fewer bits cost: nats per token, on sequences that the full weights write and on a text.

    python benchmarks/quantized_loss.py                       trained SmolLM2-135M
    python benchmarks/quantized_loss.py --weights FOLDER --text FILE --dtype float32

`own text` is what `omniflow verify` holds against the card's `parity.quantized`: the mean of KL(full || fewer bits).
`perplexity` is of a text, with the ratio to full weights. `plain` is the same form without the native step.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

from omniflow.experts import lean
from omniflow.roles import TokenRows
from omniflow.verification.quantized import divergence
from omniflow.weights import prepare

FORMS: tuple[tuple[lean.Quantize, bool], ...] = (("int8", True), ("int8", False), ("int4", True), ("int4", False))
TEXT = Path(__file__).with_name("passages.txt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", help="a Hugging Face model folder with a tokenizer.json")
    parser.add_argument("--text", default=str(TEXT), help="a text file")
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    folder = Path(options.weights) if options.weights else prepare("smollm2-135m-instruct")
    ids = _read(folder, Path(options.text))
    full = _load(folder, options.dtype, len(ids), "none", native=True)
    loss = _loss(full, ids)
    print(f"{options.dtype}: perplexity {loss.exp():.2f} of {len(ids)} tokens", flush=True)
    report: dict[str, dict[str, float]] = {"full": {"perplexity": float(loss.exp())}}
    for form, native in FORMS:
        small = _load(folder, options.dtype, len(ids), form, native=native)
        nats, own = float(_loss(small, ids) - loss), divergence(full, small)
        name = form if native else f"{form} plain"
        ratio = float(torch.tensor(nats).exp())
        print(
            f"{name:10} own text {own:.4f}, this text {nats:.4f} nats per token; perplexity times {ratio:.3f}",
            flush=True,
        )
        report[name] = {"own_text": own, "text": nats, "perplexity_ratio": ratio}
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _load(folder: Path, dtype: str, tokens: int, form: lean.Quantize, *, native: bool) -> lean.LeanDecoder:
    return lean.load(
        folder,
        dtype={"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype],
        device=torch.device("cpu"),
        cache_tokens=max(tokens, 256) + 256,
        block_tokens=16,
        quantize=form,
        native=native,
    )


def _read(folder: Path, text: Path) -> Tensor:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return torch.tensor(tokenizer.encode(text.read_text(encoding="utf-8")).ids)


def _loss(decoder: lean.LeanDecoder, ids: Tensor) -> Tensor:
    """Mean negative log-likelihood of each token under those before it, read one by one as in decoding."""
    sequence = decoder.open({}, max_positions=len(ids))
    assert sequence is not None
    losses = []
    for i in range(len(ids) - 1):
        (result,) = decoder.step([TokenRows(sequence=sequence, ids=ids[i : i + 1])])
        assert result.logits is not None
        losses.append(-result.logits.double().log_softmax(dim=-1)[ids[i + 1]])
    decoder.close(sequence)
    return torch.stack(losses).mean()


if __name__ == "__main__":
    main()
