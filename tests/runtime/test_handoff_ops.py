"""Ops of hand-offs, called as the engine calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from omniflow.channel import Window
from omniflow.loops.base import Done, Emit
from omniflow.ops.base import Call
from omniflow.ops.table import OPS
from omniflow.rng import Source, own_generator


def _call(
    name: str, values: Mapping[str, Any], *, window: Window | None = None, is_end: bool = True, **params: Any
) -> list[Emit | Done]:
    op = OPS[name]
    memory = op.memory() if op.memory else None
    windows = {next(iter(op.pieces)): window} if window is not None else {}
    call = Call(values=values, windows=windows, params=params, component=None, memory=memory, is_end=is_end)
    return list(op.run(call))


def _one(name: str, values: Mapping[str, Any], **params: Any) -> Tensor:
    (emit,) = _call(name, values, **params)
    assert isinstance(emit, Emit)
    data: Tensor = emit.data
    return data


def _rows(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.float32)[:, None].expand(-1, 2) + 1


def test_rows_at_certain_tokens_are_zeroed_and_the_rows_given_stay_as_they_were() -> None:
    given = _rows(4).clone()
    own = _one("zero_at", {"rows": given, "tokens": torch.tensor([7, 5, 9, 5])}, ids=[5, 9])
    assert own[:, 0].tolist() == [1, 0, 0, 0]
    assert torch.equal(given, _rows(4))


def test_rows_are_put_at_certain_tokens_in_order() -> None:
    given = _rows(4).clone()
    values = {"rows": given, "tokens": torch.tensor([5, 7, 5, 8]), "values": torch.tensor([[10.0, 0], [20.0, 0]])}
    assert _one("put_at", values, ids=[5])[:, 0].tolist() == [10, 2, 20, 4]
    assert torch.equal(given, _rows(4))


def test_rows_without_places_are_refused() -> None:
    values = {"rows": _rows(3), "tokens": torch.tensor([5, 7, 5]), "values": torch.zeros(1, 2)}
    with pytest.raises(ValueError, match="the tokens have 2 places for 1 rows"):
        _call("put_at", values, ids=[5])


def test_no_rows_at_no_places_leave_a_value_alone_whatever_their_width() -> None:
    values = {"rows": _rows(3), "tokens": torch.tensor([1, 2, 3]), "values": torch.zeros(0)}
    assert torch.equal(_one("put_at", values, ids=[5]), _rows(3))


def test_the_last_rows_are_added_to_or_replaced() -> None:
    values = {"rows": _rows(4), "values": torch.full((2, 2), 10.0)}
    assert _one("add_last", values)[:, 0].tolist() == [1, 2, 13, 14]
    assert _one("put_last", values)[:, 0].tolist() == [1, 2, 10, 10]
    for name in ("add_last", "put_last"):
        with pytest.raises(ValueError, match="3 rows cannot"):
            _call(name, {"rows": _rows(2), "values": _rows(3)})


def test_a_tail_comes_behind_the_end_of_a_stream_and_not_before() -> None:
    tail, window = _rows(1), Window(_rows(3), 0, 0, 3, 0, False)
    running = _call("append", {"tail": tail}, window=window, is_end=False)
    assert [len(emit.data) for emit in running if isinstance(emit, Emit)] == [3]
    ended = _call("append", {"tail": tail}, window=window, is_end=True)
    assert [len(emit.data) for emit in ended if isinstance(emit, Emit)] == [3, 1]


def test_a_slice_is_done_as_soon_as_it_has_its_elements() -> None:
    window = Window(_rows(3), 0, 0, 3, 0, False)
    first = _call("slice", {}, window=window, is_end=False, start=0, stop=1)
    assert isinstance(first[0], Emit)
    assert first[0].data[:, 0].tolist() == [1]
    assert isinstance(first[-1], Done)
    assert not any(isinstance(x, Done) for x in _call("slice", {}, window=window, is_end=False, start=0, stop=4))


def test_windows_become_items_beside_each_other_with_what_they_are_cut_of() -> None:
    value, beside = Window(_rows(5), 0, 1, 3, 1, False), Window(torch.arange(5), 0, 1, 3, 1, False)
    call = Call(
        values={}, windows={"value": value, "beside": beside}, params={}, component=None, memory=None, is_end=False
    )
    emits = [emit for emit in OPS["itemize"].run(call) if isinstance(emit, Emit)]
    assert [emit.port for emit in emits] == ["value", "cut", "beside"]
    assert all(emit.ends_item for emit in emits)
    assert emits[1].data.tolist() == [1, 3]
    frames = torch.arange(10)  # two for each element of the window
    assert _one("crop", {"value": frames, "cut": emits[1].data}, scale=2).tolist() == [2, 3, 4, 5, 6, 7]


def _noise(width: int, sizes: Sequence[int]) -> Tensor:
    op, rng, pieces = OPS["noise"], Source(3, "noise", 0, shared=own_generator("torch", 3)), []
    assert op.memory is not None
    memory = op.memory()
    for size in sizes:
        call = Call(
            values={}, windows={"like": Window(torch.zeros(size), 0, 0, size, 0, False)}, params={"width": width},
            component=None, memory=memory, is_end=False, rng=rng,
        )  # fmt: skip
        pieces += [emit.data for emit in op.run(call) if isinstance(emit, Emit)]
    return torch.cat(pieces)


def test_noise_does_not_depend_on_how_its_stream_is_cut() -> None:
    for width in (3, 20, 160):
        assert torch.equal(_noise(width, [7]), _noise(width, [1, 4, 2]))
    at_once = torch.randn(7, 160, generator=torch.Generator().manual_seed(3))
    assert torch.equal(_noise(160, [2, 5]), at_once)


def _places(tokens: Sequence[int], grids: Sequence[Sequence[int]]) -> list[list[int]]:
    values = {"tokens": torch.tensor(tokens), "grids": [torch.tensor(grid) for grid in grids]}
    places: list[list[int]] = _one("grid_positions", values, ids=[5], merge=2).tolist()
    return places


def test_words_stand_one_after_another_and_pictures_spread_by_row_and_column() -> None:
    own = _places([1, 5, 5, 5, 5, 5, 5, 2, 3], [(1, 4, 6)])
    picture = [[1, 1, 1], [1, 1, 2], [1, 1, 3], [1, 2, 1], [1, 2, 2], [1, 2, 3]]
    assert own == [[0, 0, 0], *picture, [4, 4, 4], [5, 5, 5]]


def test_pictures_side_by_side_and_frames_of_a_clip_go_on_behind_the_largest_place() -> None:
    own = _places([5, 5, 5], [(2, 2, 2), (1, 2, 2)])
    assert own == [[0, 0, 0], [1, 0, 0], [2, 2, 2]]


@pytest.mark.parametrize(
    ("tokens", "grids", "message"),
    [
        ([1, 5], [], "token 1 stands for a picture, but only 0 came"),
        ([1, 2], [(1, 2, 2)], "1 pictures came, the tokens have places for 0"),
        ([5, 1, 5], [(1, 2, 4)], "picture 0 needs 2 tokens in a row from token 0 on"),
        ([5], [(1, 3, 2)], "does not divide into squares of 2"),
    ],
)
def test_pictures_and_tokens_that_do_not_belong_together_say_so(
    tokens: list[int], grids: list[tuple[int, int, int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _places(tokens, grids)


def test_constant_and_repeated_ids_are_tokens() -> None:
    assert _one("ids", {}, ids=[3, 4]).tolist() == [3, 4]
    assert _one("repeat_id", {"like": _rows(3)}, id=9).tolist() == [9, 9, 9]
    assert _one("repeat_id", {"like": _rows(3)}, id=9).dtype == torch.int64


def test_tokens_in_which_no_turn_opens_have_no_turn_of_any_role() -> None:
    values = {"tokens": torch.tensor([3, 4])}
    assert _one("by_role", values, opens=9, role=1).tolist() == []
    with pytest.raises(ValueError, match="there is no turn of role 1"):
        _call("by_role", values, opens=9, role=1, which="last")
