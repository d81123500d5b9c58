// Rows of activations as words of the kind that a product takes. int8 and int4 weights both take int8 activations.
#pragma once

#include <algorithm>
#include <vector>

#include "matrix.h"

namespace omniflow {

inline Kind activation_kind(Kind weights) { return weights == kInt4 ? kInt8 : weights; }

constexpr int64_t kGroupWords = 16; // int8: 64 columns of a row of x share a scale

// For int8, per row and group of columns: `scale`, and `start`, which takes back that int8 weights are unsigned with an
// offset of 128. `total`, for int4: the sum of each half of a group, as the scaled steps that it is multiplied by.
struct Activations {
  Kind kind = kFloat32;
  int64_t stride = 0; // words from row to row
  std::vector<uint32_t> words;
  std::vector<float> scale, total;
  std::vector<int32_t> start;

  void reserve(Kind of, int64_t rows, int64_t columns) {
    kind = of;
    stride = (words_of(of, columns) + kGroupWords - 1) / kGroupWords * kGroupWords;
    if ((int64_t)words.size() < rows * stride) words.assign(rows * stride, 0);
    if (of == kInt8) scale.resize(rows * groups()), start.resize(rows * groups()), total.resize(2 * rows * groups());
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
    int32_t totals[2] = {};
    for (int64_t k = 0; k < count; k++) {
      bytes[first + k] = (int8_t)std::lrint(from[first + k] * inverse);
      totals[k / kInt4Group] += bytes[first + k];
    }
    to.scale[group] = scale;
    to.start[group] = -128 * (totals[0] + totals[1]);
    for (int half = 0; half < 2; half++) to.total[2 * group + half] = scale * totals[half];
  }
  for (int64_t k = columns; k % 4; k++) bytes[k] = 0;
}

} // namespace omniflow
