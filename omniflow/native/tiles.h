// Tiles of a product: the sums of a few panels of weights with a few rows of activations, in registers.
//
// Every output element is one accumulation over k in order, whatever tile it falls in: a row's bits do not depend on
// how many rows there are.
#pragma once

#include <array>
#include <utility>

#include "activations.h"

namespace omniflow {

// acc += w * x for one word of every lane.
template <Kind kind> struct Dot;

template <> struct Dot<kFloat32> {
  typedef f32x16 Sum;
  static Sum add(Sum acc, u32x16 w, u32x16 x) { return acc + (f32x16)w * (f32x16)x; }
};

template <> struct Dot<kBFloat16> {
  typedef f32x16 Sum;
  static Sum add(Sum acc, u32x16 w, u32x16 x) {
#if defined(__AVX512BF16__)
    return (f32x16)_mm512_dpbf16_ps((__m512)acc, (__m512bh)w, (__m512bh)x);
#else
    acc += (f32x16)(w << 16) * (f32x16)(x << 16);
    return acc + (f32x16)(w & 0xffff0000u) * (f32x16)(x & 0xffff0000u);
#endif
  }
};

template <> struct Dot<kInt8> {
  typedef i32x16 Sum;
  static Sum add(Sum acc, u32x16 w, u32x16 x) { // w: four unsigned bytes, x: four signed bytes
#if defined(__AVX512VNNI__)
    return (i32x16)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)w, (__m512i)x);
#else
    for (int i = 0; i < 4; i++) acc += (i32x16)((w >> (8 * i)) & 255u) * ((i32x16)(x << (24 - 8 * i)) >> 24);
    return acc;
#endif
  }
};

// A tile is a pair of panels by up to so many rows: what leaves its sums in the registers.
#if defined(__AVX512F__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 2;
#endif

// Rows of activations that a tile reads.
struct Rows {
  const uint32_t *words;
  const float *scale, *total;
  const int32_t *start;
  int64_t stride, groups;
};

inline Rows rows_from(const Activations &x, int64_t row) {
  const int64_t group = row * x.groups();
  return {x.row(row), x.scale.data() + group, x.total.data() + 2 * group, x.start.data() + group, x.stride, x.groups()};
}

// out[panel][row][lane], sums. `ahead` are weights that will be wanted next: `lines` of them per word are fetched.
template <Kind kind, int rows, int lines>
  requires(kind != kInt4)
void tile(const uint8_t *w, const uint8_t *ahead, int64_t words, const Rows &x, uint8_t *out) {
  typedef typename Dot<kind>::Sum Sum;
  const int64_t run = kind == kInt8 ? kGroupWords : words;
  f32x16 sums[2][rows] = {};
  for (int64_t k = 0, group = 0; k < words; group++) {
    Sum acc[2][rows] = {};
    if (kind == kInt8)
      for (int r = 0; r < rows; r++)
        for (int p = 0; p < 2; p++) acc[p][r] = (Sum)splat((uint32_t)x.start[r * x.groups + group]);
    for (const int64_t end = std::min(words, k + run); k < end; k++, w += kPairWordBytes) {
      for (int l = 0; l < lines; l++) __builtin_prefetch(ahead + (k * lines + l) * 64, 0, 2);
      u32x16 weight[2];
      for (int p = 0; p < 2; p++) weight[p] = load<u32x16>(w + p * 64);
      for (int r = 0; r < rows; r++) {
        const u32x16 value = splat(x.words[r * x.stride + k]);
        for (int p = 0; p < 2; p++) acc[p][r] = Dot<kind>::add(acc[p][r], weight[p], value);
      }
    }
    for (int r = 0; r < rows; r++)
      for (int p = 0; p < 2; p++)
        if constexpr (kind == kInt8)
          sums[p][r] += __builtin_convertvector(acc[p][r], f32x16) * splat(x.scale[r * x.groups + group]);
        else
          sums[p][r] = acc[p][r];
  }
  for (int p = 0; p < 2; p++)
    for (int r = 0; r < rows; r++) store(out + (p * rows + r) * 64, sums[p][r]);
}

// The same for int4, group by group: sum (least + q scale) x = least sum x + scale sum q x.
template <Kind kind, int rows, int lines>
  requires(kind == kInt4)
void tile(const uint8_t *w, const uint8_t *ahead, int64_t words, const Rows &x, uint8_t *out) {
  f32x16 sums[2][rows] = {};
  for (int64_t group = 0; group * kInt4Words < words; group++, w += kInt4Words * kPairWordBytes) {
    for (int l = 0; l < lines * kInt4Words; l++) __builtin_prefetch(ahead + (group * lines * kInt4Words + l) * 64, 0, 2);
    const auto weight_of = [&](int word, int p) {
      return load<u32x16>(w + word * kPairWordBytes + p * 64);
    };
    i32x16 acc[2][rows] = {};
    for (int word = 0; word < kInt4Words - 1; word++) {
      u32x16 low[2], high[2];
      for (int p = 0; p < 2; p++) {
        const u32x16 weight = weight_of(1 + word, p);
        low[p] = weight & 0x0f0f0f0fu, high[p] = weight >> 4 & 0x0f0f0f0fu;
      }
      for (int r = 0; r < rows; r++) {
        const uint32_t *at = x.words + r * x.stride + 2 * (group * (kInt4Words - 1) + word);
        for (int p = 0; p < 2; p++) acc[p][r] = Dot<kInt8>::add(acc[p][r], low[p], splat(at[0]));
        for (int p = 0; p < 2; p++) acc[p][r] = Dot<kInt8>::add(acc[p][r], high[p], splat(at[1]));
      }
    }
    for (int p = 0; p < 2; p++) {
      const u32x16 both = weight_of(0, p);
      const f32x16 scale = (f32x16)(both << 16), least = (f32x16)(both & 0xffff0000u);
      for (int r = 0; r < rows; r++) {
        sums[p][r] += least * splat(x.total[2 * r * x.groups + group]);
        sums[p][r] += __builtin_convertvector(acc[p][r], f32x16) * (scale * splat(x.scale[r * x.groups + group / 2]));
      }
    }
  }
  for (int p = 0; p < 2; p++)
    for (int r = 0; r < rows; r++) store(out + (p * rows + r) * 64, sums[p][r]);
}

typedef void (*Tile)(const uint8_t *, const uint8_t *, int64_t, const Rows &, uint8_t *);

template <Kind kind, int lines, int... rows>
constexpr std::array<Tile, kTileRows> tiles_of(std::integer_sequence<int, rows...>) {
  return {tile<kind, rows + 1, lines>...};
}

// By how many lines per word are fetched ahead.
template <Kind kind> constexpr std::array<std::array<Tile, kTileRows>, 3> tiles_of() {
  typedef std::make_integer_sequence<int, kTileRows> Rows;
  return {tiles_of<kind, 0>(Rows()), tiles_of<kind, 1>(Rows()), tiles_of<kind, 2>(Rows())};
}

// At namespace scope: a static of an inline function would be one for all libraries of a process, whatever they are
// built for.
constexpr std::array<std::array<Tile, kTileRows>, 3> kTiles[4] = {tiles_of<kFloat32>(), tiles_of<kBFloat16>(),
                                                                  tiles_of<kInt8>(), tiles_of<kInt4>()};

inline Tile tile_of(Kind kind, int64_t rows, int64_t lines) { return kTiles[kind][lines][rows - 1]; }

} // namespace omniflow
