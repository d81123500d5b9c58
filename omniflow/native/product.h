// Products y = W x for a few to a few hundred rows x.
#pragma once

#include "deal.h"
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

inline int64_t blocks_of(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

// A product of a step: its weights, and how they are dealt to the threads.
struct Product {
  const Matrix *weights;
  Deal *deal;

  Chunk take(int thread, int64_t rows) const { return deal->take(thread, weights->pairs, blocks_of(rows)); }
};

// Calls `out(pair, row, first panel's sums, second panel's sums)` for the chunks that `thread` gets: `mine`, and others
// after it. A next chunk is taken before one is begun, so that its weights are fetched in the meantime; at last that is
// one of `next`, the product that follows for `next_rows` rows, and returned.
template <class Out>
Chunk multiply(const Product &product, const Product &next, const Activations &x, int64_t rows, int64_t next_rows,
               int thread, Chunk mine, Out out) {
  const Matrix &m = *product.weights;
  alignas(64) uint8_t sums[2 * kTileRows * 64];
  while (mine.exists()) {
    const Chunk more = product.take(thread, rows), then = more.exists() ? more : next.take(thread, next_rows);
    const uint8_t *after = then.exists() ? (more.exists() ? m : *next.weights).pair(then.from) : nullptr;
    const int64_t begin = mine.block * kBlockRows, end = std::min(rows, begin + kBlockRows);
    for (int64_t pair = mine.from; pair < mine.to; pair++) {
      int64_t tiles = (end - begin + kTileRows - 1) / kTileRows;
      // While the first rows use this pair's weights, the next pair's come from memory: in one tile, or half in each of
      // two.
      const int64_t lines = tiles == 1 ? 2 : 1;
      const uint8_t *ahead = pair + 1 < mine.to ? m.pair(pair + 1) : after;
      const uint8_t *fetched = ahead == nullptr ? nullptr : ahead + m.words * kPairWordBytes;
      for (int64_t row = begin; row < end; tiles--) {
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
    if (!more.exists()) return then;
    mine = more;
  }
  return next.take(thread, next_rows);
}

} // namespace omniflow
