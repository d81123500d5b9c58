"""The loop kinds: what is iterated, in which units, with which attributes."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, LoopSignature

_SAMPLING = (
    Attribute(name="temperature", type="float", default=0.0, minimum=0.0, maximum=100.0, doc="0 decodes greedily."),
    Attribute(name="top_k", type="int", default=0, minimum=0, maximum=1 << 31, doc="Sample among the k likeliest; 0 is all."),
    Attribute(name="top_p", type="float", default=1.0, minimum=1e-9, maximum=1.0, doc="Sample within this mass."),
    Attribute(
        name="repetition_penalty", type="float", default=1.0, minimum=0.01, maximum=100.0,
        doc="Divides (or multiplies, below zero) the logits of ids seen before.",
    ),
    Attribute(name="suppress", type="ids", default=(), doc="Ids that are never chosen."),
    Attribute(name="suppress_from", type="int", default=0, minimum=0, doc="Ids from here on are never chosen, but for those of `stop`; 0 is off."),
)  # fmt: skip

_FLOW = (
    Attribute(name="solver", type="text", default="euler", choices=("euler", "heun", "midpoint", "rk4", "unipc"), doc="How the flow is integrated."),
    Attribute(name="shift", type="float", default=1.0, minimum=0.01, maximum=1e4, doc="Static shift of the noise levels."),
    Attribute(name="levels", type="text", default="even", choices=("even", "unit", "trained", "open"), doc="Noise levels before the shift: `even` in time; `unit`, 1 down to 1/steps; `trained`, largest to smallest trained level; `open`, the same without the last. All end at 0."),
    Attribute(name="train_steps", type="int", default=1000, minimum=1, maximum=1_000_000, doc="Noise levels that the denoiser was trained at."),
    Attribute(name="terminal", type="float", default=0.0, minimum=0.0, maximum=1.0, doc="Stretches the levels so that the last but one is this; 0 leaves them."),
    Attribute(name="whole_times", type="bool", default=False, doc="The denoiser is told the time in whole training steps, cut off."),
    Attribute(name="order", type="int", default=2, minimum=1, maximum=3, doc="Order of `unipc`."),
    Attribute(name="sway", type="float", default=0.0, minimum=-1.0, maximum=1.0, doc="Sway of the time grid (F5-TTS); 0 is even."),
)  # fmt: skip

LOOPS = {
    signature.kind: signature
    for signature in (
        LoopSignature(
            kind="ar_decode",
            units=("ar_prefill", "ar_token"),
            lanes=64,
            attributes=(
                Attribute(name="max_tokens", type="expression", required=True, doc="Most tokens; a number or an expression over the lengths of upstream loops, e.g. `12 * think.tokens + 64`."),
                Attribute(name="min_tokens", type="int", default=0, minimum=0, doc="Stop ids are not chosen before."),
                Attribute(name="stop", type="ids", default=(), doc="Ids that end the sequence; they are not emitted."),
                Attribute(name="feed_last", type="bool", default=True, doc="Feed the token that reaches the bound too, so that it has its hidden state."),
                Attribute(name="stop_frame", type="ids", default=(), doc="With an inner loop: ends the loop when every code of a frame but the last is one of these; a frame of nothing else is not emitted."),
                Attribute(name="delays", type="ids", default=(), maximum=4096, is_fixed=True, doc="Of an expert that chooses a code of every codebook a step: how many steps each codebook is behind. `max_tokens` then counts frames, which leave at `codes`."),
                Attribute(name="cfg", type="float", default=1.0, minimum=0.0, maximum=1e4, doc="Classifier-free guidance of logits, u + cfg * (c - u), by a second sequence beside each; 1 is off."),
                Attribute(name="session", type="bool", default=False, doc="In a session, go on from all that was read and written in the turns before; give the cache `reuse: prefix`, so that it is not read again."),
                *_SAMPLING,
            ),
            doc="Decodes tokens one after another over a cache of keys and values.",
        ),
        LoopSignature(
            kind="diffusion_denoise",
            units=("diffusion_step",),
            lanes=4,
            attributes=(
                Attribute(name="steps", type="int", required=True, minimum=1, maximum=10_000, doc="Denoise steps."),
                *_FLOW,
                Attribute(name="guidance", type="float", default=0.0, minimum=0.0, maximum=1e4, doc="Weight of the conditional minus the unconditional prediction; 0 is off."),
                Attribute(name="shift_by_length", type="numbers", default=(), doc="Length, shift, length, shift: a line through the two points, at the sequence length of the latent, in place of `shift`."),
                Attribute(name="shift_curve", type="text", default="exponential", choices=("exponential", "linear"), doc="What `shift_by_length` is put into."),
                Attribute(name="cfg", type="float", default=1.0, minimum=0.0, maximum=1e4, doc="Classifier-free guidance as published pipelines count it, u + cfg * (v - u); 1 is off."),
            ),
            doc="Integrates a learned flow from noise to a latent.",
        ),
        LoopSignature(
            kind="chunk_rollout",
            units=("chunk_step",),
            lanes=4,
            attributes=(
                Attribute(name="chunks", type="int", required=True, minimum=1, maximum=1_000_000, doc="Most chunks of a request; with `actions`, one for each of them."),
                Attribute(name="window", type="int", required=True, minimum=1, maximum=10_000, is_fixed=True, doc="How many chunks before it a chunk is made behind, at most."),
                Attribute(name="steps", type="int", required=True, minimum=1, maximum=10_000, doc="Denoise steps of a chunk."),
                *_FLOW,
                Attribute(name="session", type="bool", default=False, doc="In a session, go on behind the last chunk of the turn before."),
            ),
            doc="Denoises a world chunk by chunk, each behind those before it.",
        ),
        LoopSignature(
            kind="audio_decode",
            units=("audio_chunk",),
            lanes=1,
            attributes=(),
            doc="Turns frames into samples, chunk by chunk.",
        ),
        LoopSignature(
            kind="vae_tile",
            units=("vae_tile",),
            lanes=4,
            attributes=(
                Attribute(name="tile", type="int", default=0, minimum=0, doc="Side of a tile in latent elements; 0 decodes the whole at once."),
                Attribute(name="overlap", type="int", default=0, minimum=0, doc="Latent elements that neighbouring tiles share and blend."),
            ),
            doc="Turns latents into pixels, tile by tile.",
        ),
        LoopSignature(
            kind="score",
            units=("logprob_batch",),
            lanes=16,
            attributes=(),
            doc="Log-probabilities of given tokens behind a prompt, many positions at a time and none of them decoded.",
        ),
        LoopSignature(
            kind="encode",
            units=("encoder_chunk",),
            lanes=16,
            attributes=(),
            doc="One pass of an encoder.",
        ),
    )
}  # fmt: skip
