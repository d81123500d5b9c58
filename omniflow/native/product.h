// Products y = W x for a few to a few hundred rows x.
#pragma once

#include "tiles.h"

namespace omniflow {

// Sixteen finished sums of one packed panel and one row: int8's rows of weights scaled, bias added.
inline f32x16 finished(const Matrix &m, int64_t packed_row, const uint8_t *sums) {
  f32x16 y = load<f32x16>(sums);
  if (m.kind == kInt8) y = y * load<f32x16>(&m.scale[packed_row]);
  return m.bias.empty() ? y : y + load<f32x16>(&m.bias[packed_row]);
}

// Rows are taken in blocks that stay in the second-level cache while a pair's weights pass by.
constexpr int64_t kBlockRows = 10 * kTileRows;

// The first of the pairs of thread `thread` of `threads`; the one of `thread + 1` ends them.
inline int64_t first_pair(const Matrix &m, int thread, int threads) { return m.pairs * thread / threads; }

// For the pairs of thread `thread` of `threads`: calls `out(pair, row, first panel's sums, second panel's sums)`. During
// the last pair the thread's first weights of `next`, the product that follows, are fetched, if there is one.
template <class Out>
void multiply(const Matrix &m, const Matrix *next, const Activations &x, int64_t rows, int thread, int threads, Out out) {
  const int64_t from = first_pair(m, thread, threads), to = first_pair(m, thread + 1, threads);
  const uint8_t *after = next == nullptr ? nullptr : next->pair(first_pair(*next, thread, threads));
  alignas(64) uint8_t sums[2 * kTileRows * 64];
  for (int64_t block = 0; block < rows; block += kBlockRows) {
    const int64_t end = std::min(rows, block + kBlockRows);
    for (int64_t pair = from; pair < to; pair++) {
      int64_t tiles = (end - block + kTileRows - 1) / kTileRows;
      // While the first rows use this pair's weights, the next pair's come from memory: in one tile, or half in each of
      // two.
      const int64_t lines = tiles == 1 ? 2 : 1;
      const uint8_t *ahead = pair + 1 < to ? m.pair(pair + 1) : after;
      const uint8_t *fetched = ahead == nullptr ? nullptr : ahead + m.words * kPairWordBytes;
      for (int64_t row = block; row < end; tiles--) {
        const int64_t count = (end - row + tiles - 1) / tiles; // tiles of even sizes
        const Tile run = tile_of(m.kind, count, ahead < fetched ? lines : 0);
        run(m.pair(pair), ahead, m.words, rows_from(x, row), sums);
        ahead += m.words * lines * 64;
        for (int64_t r = 0; r < count; r++) {
          const f32x16 first = finished(m, pair * kPairRows, sums + r * 64);
          const f32x16 second = finished(m, pair * kPairRows + kLanes, sums + (count + r) * 64);
          out(pair, row + r, first, second);
        }
        row += count;
      }
    }
  }
}

} // namespace omniflow
