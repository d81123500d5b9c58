// Grouped-query attention of a few rows over one extent of cached keys and values.
#pragma once

#include <algorithm>

#include "vectors.h"

namespace omniflow {

// Rotary positions on one head in place: the two halves of a head are the two parts of head_dim / 2 rotated pairs.
inline void rotate(float *head, const float *cosines, const float *sines, int64_t half) {
  int64_t d = 0;
  for (; d + kLanes <= half; d += kLanes) {
    const f32x16 a = load<f32x16>(head + d), b = load<f32x16>(head + half + d);
    const f32x16 c = load<f32x16>(cosines + d), s = load<f32x16>(sines + d);
    store(head + d, a * c - b * s);
    store(head + half + d, b * c + a * s);
  }
  for (; d < half; d++) {
    const float a = head[d], b = head[half + d];
    head[d] = a * cosines[d] - b * sines[d];
    head[half + d] = b * cosines[d] + a * sines[d];
  }
}

// x / rms(x) * weight, out of place or in place.
inline void normalise(const float *x, const float *weight, float epsilon, int64_t size, float *out) {
  f32x16 squares = splat(0.0f);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const f32x16 v = load<f32x16>(x + i);
    squares += v * v;
  }
  float total = sum(squares);
  for (; i < size; i++) total += x[i] * x[i];
  const float factor = 1.0f / std::sqrt(total / (float)size + epsilon);
  for (i = 0; i + kLanes <= size; i += kLanes)
    store(out + i, load<f32x16>(x + i) * splat(factor) * load<f32x16>(weight + i));
  for (; i < size; i++) out[i] = x[i] * factor * weight[i];
}

// Transposes a square of sixteen vectors in place: single lanes, pairs, then quarters change places.
inline void transpose(f32x16 *v) {
#if defined(__clang__) || __GNUC__ >= 12
#define OMNIFLOW_MIX __builtin_shufflevector
  f32x16 two[16], four[16];
  for (int i = 0; i < 16; i += 2) {
    two[i] = OMNIFLOW_MIX(v[i], v[i + 1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
    two[i + 1] = OMNIFLOW_MIX(v[i], v[i + 1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  }
  for (int i = 0; i < 16; i += 4)
    for (int c = 0; c < 2; c++) { // four[i + c]: columns c, c + 4, c + 8, c + 12 of rows i .. i + 3
      const f32x16 a = two[i + c], b = two[i + 2 + c];
      four[i + c] = OMNIFLOW_MIX(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      four[i + c + 2] = OMNIFLOW_MIX(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  for (int c = 0; c < 4; c++) {
    const f32x16 a = four[c], b = four[4 + c], d = four[8 + c], e = four[12 + c];
    const f32x16 ab = OMNIFLOW_MIX(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
    const f32x16 de = OMNIFLOW_MIX(d, e, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
    const f32x16 ba = OMNIFLOW_MIX(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    const f32x16 ed = OMNIFLOW_MIX(d, e, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    v[c] = OMNIFLOW_MIX(ab, de, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    v[c + 4] = OMNIFLOW_MIX(ba, ed, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    v[c + 8] = OMNIFLOW_MIX(ab, de, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    v[c + 12] = OMNIFLOW_MIX(ba, ed, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
#undef OMNIFLOW_MIX
#else
  for (int i = 0; i < kLanes; i++)
    for (int j = 0; j < i; j++) {
      const float x = v[i][j];
      v[i][j] = v[j][i];
      v[j][i] = x;
    }
#endif
}

// Softmax of `count` scores in place, without the division; returns the divisor. There is room for whole vectors.
inline float exponentiate(float *scores, int64_t count) {
  for (int64_t i = count; i % kLanes; i++) scores[i] = -1e30f;
  f32x16 most = load<f32x16>(scores);
  for (int64_t i = kLanes; i < count; i += kLanes) most = maximum(most, load<f32x16>(scores + i));
  float peak = most[0];
  for (int i = 1; i < kLanes; i++) peak = std::max(peak, most[i]);
  f32x16 total = splat(0.0f);
  for (int64_t i = 0; i < count; i += kLanes) {
    const f32x16 score = load<f32x16>(scores + i);
    const f32x16 e = score > splat(-1e29f) ? exponential(score - splat(peak)) : splat(0.0f);
    store(scores + i, e);
    total += e;
  }
  return sum(total);
}

constexpr int64_t kBlockTokens = kLanes; // tokens whose keys or values are worked on together
constexpr int64_t kReadBytes = 64 << 10; // of keys or values that are read from memory together, at least a block
constexpr int64_t kMaxHead = 512;        // mirrored in binding.py
constexpr int kMaxWidth = 6;             // queries that share one reading of a key or value

// The queries of `rows` following rows of one span over the kv heads `from .. to`. Row r attends to `count` + r tokens,
// [token][kv head][head_dim]. `queries` and `out` point at row 0, first query head of `from`. `scores` is scratch of
// `room` floats for every query, `room` a multiple of kLanes not below the longest count.
//
// A score is one sum over head_dim with a token per lane, an output one sum over tokens in order: the bits are the same
// whatever rows come together and whatever chunk a token came in. With a cache of bfloat16 and dot products for it,
// queries and weights are rounded to bfloat16 as well.
template <class Cache> struct AttentionTask {
  const typename Cache::Element *keys, *values;
  int64_t rows, count, kv_heads, group, head_dim, from, to;
  const float *queries;
  int64_t query_stride;
  float *out;
  int64_t out_stride;
  float *scores;
  int64_t room;
};

template <class Cache> class Attention {
public:
  typedef typename Cache::Element Element;

  explicit Attention(const AttentionTask<Cache> &task)
      : t_(task), token_(task.kv_heads * task.head_dim), last_(task.count + task.rows - 1),
        padded_((last_ + kBlockTokens - 1) / kBlockTokens * kBlockTokens), each_(task.rows * task.group) {}

  void run() {
    for (int64_t first = 0; first < last_; first += kBlockTokens) {
      read(t_.keys, first);
      for (int64_t kv = t_.from; kv < t_.to; kv++) {
        turn_keys(kv, first);
        in_runs([&](auto width, int64_t query) { score<width.value>(kv, query, first); });
      }
    }
    for (int64_t kv = t_.from; kv < t_.to; kv++)
      for (int64_t query = 0; query < each_; query++) weigh(kv, query);
    for (int64_t first = 0; first < last_; first += kBlockTokens) {
      read(t_.values, first);
      for (int64_t kv = t_.from; kv < t_.to; kv++)
        in_runs([&](auto width, int64_t query) { mix<width.value>(kv, query, first); });
    }
  }

private:
  const AttentionTask<Cache> &t_;
  const int64_t token_, last_, padded_, each_; // each_: queries per kv head
  f32x16 turned_[kMaxHead];                    // keys of one block and kv head: a vector of tokens per column

  template <int width> struct Width { static constexpr int value = width; };

  // The queries of one kv head in runs of up to kMaxWidth.
  template <class Work> void in_runs(Work work) {
    for (int64_t query = 0; query < each_; query += kMaxWidth) switch (std::min<int64_t>(kMaxWidth, each_ - query)) {
      case 1: work(Width<1>(), query); break;
      case 2: work(Width<2>(), query); break;
      case 3: work(Width<3>(), query); break;
      case 4: work(Width<4>(), query); break;
      case 5: work(Width<5>(), query); break;
      default: work(Width<6>(), query); break;
      }
  }

  int64_t column(int64_t kv, int64_t query) const {
    return ((kv - t_.from) * t_.group + query % t_.group) * t_.head_dim;
  }
  const float *query_of(int64_t kv, int64_t query) const {
    return t_.queries + query / t_.group * t_.query_stride + column(kv, query);
  }
  float *out_of(int64_t kv, int64_t query) const {
    return t_.out + query / t_.group * t_.out_stride + column(kv, query);
  }
  float *scores_of(int64_t kv, int64_t query) const {
    return t_.scores + ((kv - t_.from) * each_ + query) * t_.room;
  }

  // Keys or values come from memory fastest line after line, which is not how they are worked on. So the next ones are
  // read once, into the cache, before the first of them is wanted; prefetches instead of reads were slower.
  void read(const Element *from, int64_t first) const {
    const int64_t bytes = (t_.to - t_.from) * t_.head_dim * sizeof(Element), token_bytes = token_ * sizeof(Element);
    const int64_t tokens = std::max(kBlockTokens, kReadBytes / token_bytes / kBlockTokens * kBlockTokens);
    if (first % tokens != 0) return;
    const int64_t end = std::min(first + tokens, last_);
    for (int64_t t = first; t < end; t++) {
      const char *line = (const char *)(from + t * token_ + t_.from * t_.head_dim);
      for (int64_t b = 0; b < bytes; b += 64) (void)*(const volatile char *)(line + b);
    }
  }

  void turn_keys(int64_t kv, int64_t first) {
    const int64_t tokens = std::min(kBlockTokens, last_ - first);
    const Element *keys = t_.keys + first * token_ + kv * t_.head_dim;
    if constexpr (Cache::in_pairs) { // as words of two columns
      for (int64_t d = 0; d < t_.head_dim; d += 2 * kLanes) {
        f32x16 square[kLanes];
        for (int64_t t = 0; t < kLanes; t++)
          square[t] = t < tokens ? read_words(keys + t * token_ + d, t_.head_dim - d) : splat(0.0f);
        transpose(square);
        for (int64_t i = 0; i < kLanes && d + 2 * i < t_.head_dim; i++) turned_[d / 2 + i] = square[i];
      }
      return;
    }
    for (int64_t d = 0; d < t_.head_dim; d += kLanes) {
      f32x16 square[kLanes];
      for (int64_t t = 0; t < kLanes; t++)
        square[t] = t < tokens ? read_columns(keys + t * token_ + d, t_.head_dim - d) : splat(0.0f);
      transpose(square);
      for (int64_t i = 0; i < kLanes && d + i < t_.head_dim; i++) turned_[d + i] = square[i];
    }
  }

  static f32x16 read_words(const Element *from, int64_t count) {
    if (count >= 2 * kLanes) return load<f32x16>(from);
    Element part[2 * kLanes] = {};
    for (int64_t i = 0; i < count; i++) part[i] = from[i];
    return load<f32x16>(part);
  }

  static f32x16 read_columns(const Element *from, int64_t count) {
    if (count >= kLanes) return Cache::read(from);
    float part[kLanes] = {};
    for (int64_t i = 0; i < count; i++) part[i] = Cache::read_one(from + i);
    return load<f32x16>(part);
  }

  template <int width> void score(int64_t kv, int64_t query, int64_t first) {
    const float *q[width];
    for (int i = 0; i < width; i++) q[i] = query_of(kv, query + i);
    f32x16 acc[width] = {};
    if constexpr (Cache::in_pairs) {
      uint32_t words[width][kMaxHead / 2];
      for (int i = 0; i < width; i++) to_words(q[i], t_.head_dim, words[i]);
      const int64_t size = t_.head_dim / 2;
      f32x16 odd[width] = {}; // a second sum, so that one need not wait for the other
      for (int64_t w = 0; w + 1 < size; w += 2)
        for (int i = 0; i < width; i++) {
          acc[i] = Cache::add_pairs(acc[i], (u32x16)turned_[w], splat(words[i][w]));
          odd[i] = Cache::add_pairs(odd[i], (u32x16)turned_[w + 1], splat(words[i][w + 1]));
        }
      for (int i = 0; i < width; i++) {
        if (size % 2) acc[i] = Cache::add_pairs(acc[i], (u32x16)turned_[size - 1], splat(words[i][size - 1]));
        acc[i] += odd[i];
      }
    } else {
      for (int64_t d = 0; d < t_.head_dim; d++)
        for (int i = 0; i < width; i++) acc[i] += splat(q[i][d]) * turned_[d];
    }
    const f32x16 scale = splat(1.0f / std::sqrt((float)t_.head_dim));
    for (int i = 0; i < width; i++) store(scores_of(kv, query + i) + first, acc[i] * scale);
  }

  static void to_words(const float *from, int64_t count, uint32_t *to) {
    int64_t d = 0;
    for (; d + 2 * kLanes <= count; d += 2 * kLanes) Cache::write_words(from + d, to + d / 2);
    if (d == count) return;
    float part[2 * kLanes] = {};
    std::memcpy(part, from + d, (count - d) * sizeof(float));
    Cache::write_words(part, to + d / 2);
  }

  // Scores to weights that add up to one; zero for tokens that the query's row must not see. Clears the output.
  void weigh(int64_t kv, int64_t query) {
    float *scores = scores_of(kv, query);
    const int64_t count = t_.count + query / t_.group;
    const float inverse = 1.0f / exponentiate(scores, count);
    for (int64_t i = 0; i < count; i++) scores[i] *= inverse;
    for (int64_t i = count; i < padded_; i++) scores[i] = 0;
    std::memset(out_of(kv, query), 0, t_.head_dim * sizeof(float));
  }

  template <int width> void mix(int64_t kv, int64_t query, int64_t first) {
    const Element *values = t_.values + first * token_ + kv * t_.head_dim;
    const float *weights[width];
    float *to[width];
    for (int i = 0; i < width; i++) weights[i] = scores_of(kv, query + i) + first, to[i] = out_of(kv, query + i);
    const int64_t tokens = std::min(kBlockTokens, last_ - first), size = t_.head_dim;
    int64_t d = 0;
    if constexpr (Cache::in_pairs) {
      uint32_t words[width][kBlockTokens];
      for (int i = 0; i < width; i++) to_words(weights[i], kBlockTokens, words[i]);
      for (; d + 4 * kLanes <= size; d += 4 * kLanes) paired_columns<width, 2>(values + d, words, tokens, to, d);
      for (; d + 2 * kLanes <= size; d += 2 * kLanes) paired_columns<width, 1>(values + d, words, tokens, to, d);
    }
    for (; d + 4 * kLanes <= size; d += 4 * kLanes) columns<width, 4>(values + d, weights, tokens, to, d);
    for (; d + kLanes <= size; d += kLanes) columns<width, 1>(values + d, weights, tokens, to, d);
    for (; d < size; d++)
      for (int i = 0; i < width; i++)
        for (int64_t t = 0; t < tokens; t++) to[i][d] += weights[i][t] * Cache::read_one(values + t * token_ + d);
  }

  // Two tokens at a time; a last one alone is paired with nothing, which adds the same as one of weight zero.
  template <int width, int parts>
  void paired_columns(const Element *values, const uint32_t (*words)[kBlockTokens], int64_t tokens, float *const *to,
                      int64_t d) {
    f32x16 acc[width][2 * parts];
    for (int i = 0; i < width; i++)
      for (int p = 0; p < 2 * parts; p++) acc[i][p] = load<f32x16>(to[i] + d + p * kLanes);
    for (int64_t t = 0; t < tokens; t += 2, values += 2 * token_)
      for (int p = 0; p < parts; p++) {
        const u32x16 a = load<u32x16>(values + 2 * p * kLanes);
        const u32x16 b = t + 1 < tokens ? load<u32x16>(values + token_ + 2 * p * kLanes) : splat(0u);
        for (int half = 0; half < 2; half++) {
          const u32x16 pair = Cache::pair_tokens(a, b, half);
          for (int i = 0; i < width; i++)
            acc[i][2 * p + half] = Cache::add_pairs(acc[i][2 * p + half], pair, splat(words[i][t / 2]));
        }
      }
    for (int i = 0; i < width; i++)
      for (int p = 0; p < 2 * parts; p++) store(to[i] + d + p * kLanes, acc[i][p]);
  }

  template <int width, int parts>
  void columns(const Element *values, const float *const *weights, int64_t tokens, float *const *to, int64_t d) {
    f32x16 acc[width][parts];
    for (int i = 0; i < width; i++)
      for (int p = 0; p < parts; p++) acc[i][p] = load<f32x16>(to[i] + d + p * kLanes);
    for (int64_t t = 0; t < tokens; t++, values += token_)
      for (int p = 0; p < parts; p++) {
        const f32x16 v = Cache::read(values + p * kLanes);
        for (int i = 0; i < width; i++) acc[i][p] += splat(weights[i][t]) * v;
      }
    for (int i = 0; i < width; i++)
      for (int p = 0; p < parts; p++) store(to[i] + d + p * kLanes, acc[i][p]);
  }
};

template <class Cache> void write_cache(const float *from, typename Cache::Element *to, int64_t size) {
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) Cache::write(to + d, load<f32x16>(from + d));
  for (; d < size; d++) Cache::write_one(to + d, from[d]);
}

} // namespace omniflow
