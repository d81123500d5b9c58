// Matrix products y = W x for a few to a few hundred rows x, with W packed once.
//
// Layout of W [N, K]: pairs of panels; a panel is 16 rows of W, one per lane. Along K a pair is a run of words: word k
// of panel 0 (16 lanes of 32 bits), word k of panel 1, word k + 1 of panel 0 ... A word holds one float, two bfloat16
// or four int8 of consecutive columns. A thread that owns a range of pairs therefore reads memory in one run.
// Rows of x are words of the same kind. N is padded to a pair, K to a word, with zeros.
//
// Every output element is one accumulation over k in order, whatever tile it falls in: a row's bits do not depend on
// how many rows there are.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "vectors.h"

namespace omniflow {

enum Kind : int32_t { kFloat32 = 0, kBFloat16 = 1, kInt8 = 2 };

inline int64_t columns_per_word(Kind kind) { return kind == kFloat32 ? 1 : kind == kBFloat16 ? 2 : 4; }
inline int64_t words_of(Kind kind, int64_t columns) {
  const int64_t per_word = columns_per_word(kind);
  return (columns + per_word - 1) / per_word;
}

constexpr int64_t kPairRows = 2 * kLanes;
constexpr int64_t kPairWordBytes = 2 * 64;
constexpr int64_t kGroupWords = 16; // int8: 64 columns of a row of x share a scale

// Memory in whole huge pages: the weights are read in long runs, and small pages would miss the TLB all the time.
class Pages {
public:
  Pages() = default;
  explicit Pages(int64_t bytes) {
    const size_t page = 2 << 20, size = ((size_t)bytes + page - 1) / page * page;
    data_ = (uint8_t *)std::aligned_alloc(size > page ? page : 64, size > page ? size : ((size_t)bytes + 63) / 64 * 64);
    if (data_ == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (size > page) madvise(data_, size, MADV_HUGEPAGE);
#endif
  }
  Pages(Pages &&other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  Pages &operator=(Pages &&other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Pages() { std::free(data_); }
  uint8_t *data() const { return data_; }

private:
  uint8_t *data_ = nullptr;
};

struct Matrix {
  Kind kind = kFloat32;
  int64_t rows = 0, pairs = 0, words = 0;
  Pages pages;
  std::vector<float> bias;         // by packed row; empty when there is none
  std::vector<float> scale;        // int8: by packed row

  bool exists() const { return pairs > 0; }
  const uint8_t *pair(int64_t index) const { return pages.data() + index * words * kPairWordBytes; }
};

// Which source row a lane of a panel holds. With `interleaved`, panel 0 of pair j has rows 16 j .. of the upper half
// of the matrix and panel 1 the same rows of the lower half, so that gate and up of a column meet in one tile.
inline int64_t source_row(int64_t pair, int64_t panel, int64_t lane, int64_t rows, bool interleaved) {
  if (!interleaved) {
    const int64_t row = pair * kPairRows + panel * kLanes + lane;
    return row < rows ? row : -1;
  }
  const int64_t half = rows / 2, row = pair * kLanes + lane;
  return row < half ? panel * half + row : -1;
}

inline uint32_t pack_word(Kind kind, const float *row, int64_t columns, int64_t word, float scale) {
  uint32_t bits = 0;
  const int64_t first = word * columns_per_word(kind);
  for (int64_t i = 0; i < columns_per_word(kind) && first + i < columns; i++) {
    const float x = row[first + i];
    if (kind == kFloat32) std::memcpy(&bits, &x, 4);
    else if (kind == kBFloat16) bits |= (uint32_t)to_bf16(x) << (16 * i);
    else bits |= (uint32_t)(uint8_t)(std::lrint(x / scale) + 128) << (8 * i);
  }
  return bits;
}

inline float largest(const float *row, int64_t columns) {
  float most = 0;
  for (int64_t k = 0; k < columns; k++) most = std::max(most, std::fabs(row[k]));
  return most;
}

inline Matrix pack(Kind kind, const float *source, const float *bias, int64_t rows, int64_t columns, bool interleaved) {
  Matrix m;
  m.kind = kind;
  m.rows = rows;
  m.words = words_of(kind, columns);
  m.pairs = interleaved ? (rows / 2 + kLanes - 1) / kLanes : (rows + kPairRows - 1) / kPairRows;
  m.pages = Pages(m.pairs * m.words * kPairWordBytes);
  if (bias != nullptr) m.bias.assign(m.pairs * kPairRows, 0.0f);
  if (kind == kInt8) m.scale.assign(m.pairs * kPairRows, 0.0f);
#pragma omp parallel for
  for (int64_t pair = 0; pair < m.pairs; pair++)
    for (int64_t panel = 0; panel < 2; panel++)
      for (int64_t lane = 0; lane < kLanes; lane++) {
        const int64_t from = source_row(pair, panel, lane, rows, interleaved);
        const int64_t packed = pair * kPairRows + panel * kLanes + lane;
        const float *row = from < 0 ? nullptr : source + from * columns;
        const float scale = row == nullptr || kind != kInt8 ? 1.0f : largest(row, columns) / 127 + 1e-30f;
        uint8_t *to = m.pages.data() + pair * m.words * kPairWordBytes + panel * 64 + lane * 4;
        for (int64_t word = 0; word < m.words; word++, to += kPairWordBytes) {
          const uint32_t nothing = kind == kInt8 ? 0x80808080u : 0;
          const uint32_t bits = row == nullptr ? nothing : pack_word(kind, row, columns, word, scale);
          std::memcpy(to, &bits, 4);
        }
        if (bias != nullptr && from >= 0) m.bias[packed] = bias[from];
        if (kind == kInt8) m.scale[packed] = scale;
      }
  return m;
}

// Rows of activations as words. For int8, per row and group of columns: `scale`, and `start`, which takes back that the
// weights are unsigned with an offset of 128.
struct Activations {
  Kind kind = kFloat32;
  int64_t stride = 0; // words from row to row
  std::vector<uint32_t> words;
  std::vector<float> scale;
  std::vector<int32_t> start;

  void reserve(Kind of, int64_t rows, int64_t columns) {
    kind = of;
    stride = (words_of(of, columns) + kGroupWords - 1) / kGroupWords * kGroupWords;
    if ((int64_t)words.size() < rows * stride) words.assign(rows * stride, 0);
    if (of == kInt8) scale.resize(rows * groups()), start.resize(rows * groups());
  }
  int64_t groups() const { return stride / kGroupWords; } // from row to row of `scale` and `start`
  uint32_t *row(int64_t index) { return words.data() + index * stride; }
  const uint32_t *row(int64_t index) const { return words.data() + index * stride; }
};

// Writes `count` columns from `column` on of one row; column is even. Not for int8, which needs the whole row.
inline void write_columns(Activations &to, int64_t row, int64_t column, const float *from, int64_t count) {
  if (to.kind == kFloat32) {
    std::memcpy(to.row(row) + column, from, count * 4);
    return;
  }
  uint16_t *half = (uint16_t *)to.row(row) + column;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(half + i, to_bf16(load<f32x16>(from + i)));
  for (; i < count; i++) half[i] = to_bf16(from[i]);
}

// Writes a whole row of any kind. int8: signed, each group by its largest magnitude, so that one large value costs the
// others of its group their precision and not the whole row.
inline void write_row(Activations &to, int64_t row, const float *from, int64_t columns) {
  if (to.kind != kInt8) {
    write_columns(to, row, 0, from, columns);
    if (columns % 2 && to.kind == kBFloat16) ((uint16_t *)to.row(row))[columns] = 0;
    return;
  }
  int8_t *bytes = (int8_t *)to.row(row);
  int64_t group = row * to.groups();
  for (int64_t first = 0; first < columns; first += 4 * kGroupWords, group++) {
    const int64_t count = std::min(columns - first, 4 * kGroupWords);
    const float scale = largest(from + first, count) / 127 + 1e-30f, inverse = 1 / scale;
    int32_t total = 0;
    for (int64_t k = first; k < first + count; k++) {
      bytes[k] = (int8_t)std::lrint(from[k] * inverse);
      total += bytes[k];
    }
    to.scale[group] = scale;
    to.start[group] = -128 * total;
  }
  for (int64_t k = columns; k % 4; k++) bytes[k] = 0;
}

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

// Tiles whose sums fit the registers: a pair of panels by up to `kTileRows` rows, or two pairs by half as many, which
// read memory in two runs and so keep more of it under way.
#if defined(__AVX512F__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 2;
#endif

// Rows of activations that a tile reads.
struct Rows {
  const uint32_t *words;
  const float *scale;
  const int32_t *start;
  int64_t stride, groups;
};

inline Rows rows_from(const Activations &x, int64_t row) {
  return {x.row(row), x.scale.data() + row * x.groups(), x.start.data() + row * x.groups(), x.stride, x.groups()};
}

// out[panel][row][lane], sums. `ahead` are weights that will be wanted next: `lines` of them per word are fetched.
template <Kind kind, int pairs, int rows, int lines>
void tile(const uint8_t *w, const uint8_t *ahead, int64_t words, const Rows &x, uint8_t *out) {
  typedef typename Dot<kind>::Sum Sum;
  const int64_t pair_bytes = words * kPairWordBytes, run = kind == kInt8 ? kGroupWords : words;
  f32x16 sums[2 * pairs][rows] = {};
  for (int64_t k = 0, group = 0; k < words; group++) {
    Sum acc[2 * pairs][rows] = {};
    if (kind == kInt8)
      for (int r = 0; r < rows; r++)
        for (int p = 0; p < 2 * pairs; p++) acc[p][r] = (Sum)splat((uint32_t)x.start[r * x.groups + group]);
    for (const int64_t end = std::min(words, k + run); k < end; k++, w += kPairWordBytes) {
      for (int l = 0; l < lines; l++) __builtin_prefetch(ahead + (k * lines + l) * 64, 0, 2);
      u32x16 weight[2 * pairs];
      for (int p = 0; p < 2 * pairs; p++) weight[p] = load<u32x16>(w + (p / 2) * pair_bytes + (p % 2) * 64);
      for (int r = 0; r < rows; r++) {
        const u32x16 value = splat(x.words[r * x.stride + k]);
        for (int p = 0; p < 2 * pairs; p++) acc[p][r] = Dot<kind>::add(acc[p][r], weight[p], value);
      }
    }
    for (int r = 0; r < rows; r++)
      for (int p = 0; p < 2 * pairs; p++)
        if constexpr (kind == kInt8)
          sums[p][r] += __builtin_convertvector(acc[p][r], f32x16) * splat(x.scale[r * x.groups + group]);
        else
          sums[p][r] = acc[p][r];
  }
  for (int p = 0; p < 2 * pairs; p++)
    for (int r = 0; r < rows; r++) store(out + (p * rows + r) * 64, sums[p][r]);
}

typedef void (*Tile)(const uint8_t *, const uint8_t *, int64_t, const Rows &, uint8_t *);

template <Kind kind, int pairs, int lines, int... rows>
constexpr std::array<Tile, kTileRows> tiles_of(std::integer_sequence<int, rows...>) {
  return {tile<kind, pairs, rows + 1, lines>...};
}

// By what is fetched ahead: nothing for two pairs; one or two lines per word, or nothing, for one.
template <Kind kind> constexpr std::array<std::array<Tile, kTileRows>, 4> tiles_of() {
  typedef std::make_integer_sequence<int, kTileRows> Rows;
  typedef std::make_integer_sequence<int, kTileRows / 2> Half;
  return {tiles_of<kind, 1, 0>(Rows()), tiles_of<kind, 1, 1>(Rows()), tiles_of<kind, 1, 2>(Rows()),
          tiles_of<kind, 2, 0>(Half())};
}

// At namespace scope: a static of an inline function would be one for all libraries of a process, whatever they are
// built for.
constexpr std::array<std::array<Tile, kTileRows>, 4> kTiles[3] = {tiles_of<kFloat32>(), tiles_of<kBFloat16>(),
                                                                  tiles_of<kInt8>()};

inline Tile tile_of(Kind kind, int64_t pairs, int64_t rows, int64_t lines) {
  return kTiles[kind][pairs == 2 ? 3 : lines][rows - 1];
}

// Sixteen finished sums of one packed panel and one row: int8's rows of weights scaled, bias added.
inline f32x16 finished(const Matrix &m, int64_t packed_row, const uint8_t *sums) {
  f32x16 y = load<f32x16>(sums);
  if (m.kind == kInt8) y = y * load<f32x16>(&m.scale[packed_row]);
  return m.bias.empty() ? y : y + load<f32x16>(&m.bias[packed_row]);
}

// Rows are taken in blocks that stay in the second-level cache while a pair's weights pass by.
constexpr int64_t kBlockRows = 10 * kTileRows;

// For the pairs of thread `thread` of `threads`: calls `out(pair, row, first panel's sums, second panel's sums)`.
template <class Out> void multiply(const Matrix &m, const Activations &x, int64_t rows, int thread, int threads, Out out) {
  const int64_t from = m.pairs * thread / threads, to = m.pairs * (thread + 1) / threads;
  alignas(64) uint8_t sums[2 * kTileRows * 64];
  for (int64_t block = 0; block < rows; block += kBlockRows) {
    const int64_t end = std::min(rows, block + kBlockRows);
    for (int64_t pair = from; pair < to;) {
      const int64_t pairs = end - block <= kTileRows / 2 && pair + 2 <= to ? 2 : 1;
      int64_t tiles = (end - block + kTileRows - 1) / kTileRows;
      // While the first rows use this pair's weights, the next pair's come from memory: in one tile, or half in each of
      // two.
      const int64_t lines = tiles == 1 ? 2 : 1;
      const uint8_t *ahead = m.pair(pair + pairs), *fetched = ahead + m.words * kPairWordBytes;
      for (int64_t row = block; row < end; tiles--) {
        const int64_t count = (end - row + tiles - 1) / tiles; // tiles of even sizes
        const Tile run = tile_of(m.kind, pairs, count, ahead < fetched ? lines : 0);
        run(m.pair(pair), ahead, m.words, rows_from(x, row), sums);
        ahead += m.words * lines * 64;
        for (int64_t p = 0; p < pairs; p++)
          for (int64_t r = 0; r < count; r++) {
            const int64_t packed = (pair + p) * kPairRows;
            const f32x16 first = finished(m, packed, sums + (2 * p * count + r) * 64);
            const f32x16 second = finished(m, packed + kLanes, sums + ((2 * p + 1) * count + r) * 64);
            out(pair + p, row + r, first, second);
          }
        row += count;
      }
      pair += pairs;
    }
  }
}

} // namespace omniflow
