"""The closed set of ops: name to function. A new op is one row here and one signature row in the compiler's library."""

from __future__ import annotations

from collections.abc import Mapping

from omniflow.ops.base import Op
from omniflow.ops.handoff import (
    Drawing,
    add_last,
    append,
    crop,
    embed,
    grid_positions,
    ids,
    itemize,
    noise,
    put_at,
    put_last,
    repeat_id,
    voice,
    zero_at,
)
from omniflow.ops.images import caption, tokenize_fixed
from omniflow.ops.media import log_mel, patches, repeat_at
from omniflow.ops.places import Begun, by_role, prepend, project, put_first, spread_at, take, take_at, voice_id
from omniflow.ops.segment import Rest, segment
from omniflow.ops.sequence import Passed, add, clamp, concat, slice_range, strip
from omniflow.ops.speech import Joined, Phrase, gather, join, spell
from omniflow.ops.text import Decoded, chat_tokenize, detokenize, tokenize


def _ports(*names: str) -> frozenset[str]:
    return frozenset(names)


OPS: Mapping[str, Op] = {
    "tokenize": Op(run=tokenize),
    "tokenize_fixed": Op(run=tokenize_fixed),
    "caption": Op(run=caption),
    "chat_tokenize": Op(run=chat_tokenize),
    "conversation_tokenize": Op(run=chat_tokenize),
    "detokenize": Op(run=detokenize, memory=Decoded, pieces=_ports("tokens")),
    "segment": Op(run=segment, memory=Rest, pieces=_ports("text")),
    "spell": Op(run=spell, items=_ports("text")),
    "gather": Op(run=gather, memory=Phrase, items=_ports("words")),
    "add": Op(run=add, pieces=_ports("a", "b")),
    "concat": Op(run=concat, variadic=_ports("parts")),
    "strip": Op(run=strip, pieces=_ports("tokens")),
    "clamp": Op(run=clamp, pieces=_ports("tokens")),
    "slice": Op(run=slice_range, memory=Passed, pieces=_ports("value")),
    "ids": Op(run=ids),
    "repeat_id": Op(run=repeat_id),
    "embed": Op(run=embed, pieces=_ports("tokens")),
    "zero_at": Op(run=zero_at),
    "put_at": Op(run=put_at),
    "add_last": Op(run=add_last),
    "put_last": Op(run=put_last),
    "append": Op(run=append, pieces=_ports("value")),
    "itemize": Op(run=itemize, pieces=_ports("value", "beside")),
    "crop": Op(run=crop),
    "noise": Op(run=noise, memory=Drawing, pieces=_ports("like")),
    "grid_positions": Op(run=grid_positions),
    "voice": Op(run=voice),
    "voice_id": Op(run=voice_id),
    "by_role": Op(run=by_role),
    "take": Op(run=take),
    "take_at": Op(run=take_at),
    "spread_at": Op(run=spread_at),
    "put_first": Op(run=put_first),
    "prepend": Op(run=prepend, memory=Begun, pieces=_ports("value")),
    "log_mel": Op(run=log_mel),
    "patches": Op(run=patches),
    "repeat_at": Op(run=repeat_at),
    "project": Op(run=project, pieces=_ports("rows")),
    "join": Op(run=join, memory=Joined, pieces=_ports("items")),
}
