// Weights W [N, K], packed once for products y = W x.
//
// Pairs of panels; a panel is 16 rows of W, one per lane. Along K a pair is a run of words: word k of panel 0 (16 lanes
// of 32 bits), word k of panel 1, word k + 1 of panel 0 ... A thread that owns a range of pairs therefore reads memory
// in one run. A word holds one float, two bfloat16, four int8 or eight int4 of consecutive columns; every group of int4
// begins with a word of its own, its scale and least weight. N is padded to a pair, K to a word or group, with zeros.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "vectors.h"

namespace omniflow {

enum Kind : int32_t { kFloat32 = 0, kBFloat16 = 1, kInt8 = 2, kInt4 = 3 };

constexpr int64_t kPairRows = 2 * kLanes;
constexpr int64_t kPairWordBytes = 2 * 64;
constexpr int64_t kInt4Group = 32; // columns of a row of W that share a scale and a least weight
constexpr int64_t kInt4Words = 5;  // of a group: those two, and eight columns in each of four

inline int64_t columns_per_word(Kind kind) { return kind == kFloat32 ? 1 : kind == kBFloat16 ? 2 : 4; }
inline int64_t words_of(Kind kind, int64_t columns) {
  if (kind == kInt4) return (columns + kInt4Group - 1) / kInt4Group * kInt4Words;
  const int64_t per_word = columns_per_word(kind);
  return (columns + per_word - 1) / per_word;
}

// Memory for the weights of a model, in the order in which they are asked for, and so in the order in which they are
// read. In whole huge pages: with small ones the processor would miss the TLB all the time.
class Pages {
public:
  Pages() = default;
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  ~Pages() {
    for (uint8_t *chunk : chunks_) std::free(chunk);
  }

  // `bytes` that begin on a cache line.
  uint8_t *take(int64_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (bytes > left_) open_chunk(std::max(bytes, kChunk));
    uint8_t *taken = next_;
    next_ += bytes, left_ -= bytes;
    return taken;
  }

private:
  static constexpr int64_t kHugePage = 2 << 20, kChunk = 32 * kHugePage; // what is not written to takes no memory
  std::vector<uint8_t *> chunks_;
  uint8_t *next_ = nullptr;
  int64_t left_ = 0;

  void open_chunk(int64_t bytes) {
    bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    chunks_.reserve(chunks_.size() + 1);
    next_ = (uint8_t *)std::aligned_alloc(kHugePage, bytes);
    if (next_ == nullptr) throw std::bad_alloc();
    chunks_.push_back(next_);
    left_ = bytes;
#if defined(__linux__)
    madvise(next_, bytes, MADV_HUGEPAGE);
#endif
  }
};

struct Matrix {
  Kind kind = kFloat32;
  int64_t rows = 0, pairs = 0, words = 0;
  uint8_t *words_at = nullptr; // of the model's pages
  std::vector<float> bias;     // by packed row; empty when there is none
  std::vector<float> scale;    // int8: by packed row

  bool exists() const { return pairs > 0; }
  const uint8_t *pair(int64_t index) const { return words_at + index * words * kPairWordBytes; }
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

// Words of one lane of a group of int4: w = least + q * scale with q from 0 to 15. Four bits of eight columns are a word:
// byte b has column b below column b + 4, so that a mask and a shift give two words of four int8.
inline void pack_int4(const float *row, int64_t columns, uint32_t words[kInt4Words]) {
  float least = row[0], most = row[0];
  for (int64_t k = 1; k < columns; k++) least = std::min(least, row[k]), most = std::max(most, row[k]);
  const float scale = std::max((most - least) / 15, 1e-8f);
  words[0] = (uint32_t)to_bf16(least) << 16 | to_bf16(scale);
  for (int64_t k = 0; k < columns; k++) {
    const long step = std::clamp(std::lrint((row[k] - least) / scale), 0L, 15L);
    words[1 + k / 8] |= (uint32_t)step << (8 * (k % 4) + (k % 8 < 4 ? 0 : 4));
  }
}

// Writes the words of one lane, each `kPairWordBytes` after the one before.
inline void pack_lane(Kind kind, const float *row, int64_t columns, float scale, uint8_t *to) {
  if (kind != kInt4) {
    for (int64_t word = 0; word < words_of(kind, columns); word++, to += kPairWordBytes) {
      const uint32_t bits = pack_word(kind, row, columns, word, scale);
      std::memcpy(to, &bits, 4);
    }
    return;
  }
  for (int64_t first = 0; first < columns; first += kInt4Group) {
    uint32_t words[kInt4Words] = {};
    pack_int4(row + first, std::min(columns - first, kInt4Group), words);
    for (int64_t word = 0; word < kInt4Words; word++, to += kPairWordBytes) std::memcpy(to, &words[word], 4);
  }
}

inline Matrix pack(Pages &pages, Kind kind, const float *source, const float *bias, int64_t rows, int64_t columns,
                   bool interleaved) {
  Matrix m;
  m.kind = kind;
  m.rows = rows;
  m.words = words_of(kind, columns);
  m.pairs = interleaved ? (rows / 2 + kLanes - 1) / kLanes : (rows + kPairRows - 1) / kPairRows;
  m.words_at = pages.take(m.pairs * m.words * kPairWordBytes);
  if (bias != nullptr) m.bias.assign(m.pairs * kPairRows, 0.0f);
  if (kind == kInt8) m.scale.assign(m.pairs * kPairRows, 0.0f);
  const std::vector<float> nothing(columns, 0.0f);
#pragma omp parallel for
  for (int64_t pair = 0; pair < m.pairs; pair++)
    for (int64_t panel = 0; panel < 2; panel++)
      for (int64_t lane = 0; lane < kLanes; lane++) {
        const int64_t from = source_row(pair, panel, lane, rows, interleaved);
        const int64_t packed = pair * kPairRows + panel * kLanes + lane;
        const float *row = from < 0 ? nothing.data() : source + from * columns;
        const float scale = kind == kInt8 ? largest(row, columns) / 127 + 1e-30f : 1.0f;
        pack_lane(kind, row, columns, scale, m.words_at + pair * m.words * kPairWordBytes + panel * 64 + lane * 4);
        if (bias != nullptr && from >= 0) m.bias[packed] = bias[from];
        if (kind == kInt8) m.scale[packed] = scale;
      }
  return m;
}

} // namespace omniflow
