// Grouped-query attention of one row over one extent of cached keys and values, [token][kv head][head_dim].
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

// Turns sixteen vectors into the vector of their sums: four rounds that add and interleave halves.
inline f32x16 sums(const f32x16 *v) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define OMNIFLOW_FOLD(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
  f32x16 pair[8], four[4], eight[2];
  for (int i = 0; i < 8; i++)
    pair[i] = OMNIFLOW_FOLD(v[2 * i], v[2 * i + 1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
              OMNIFLOW_FOLD(v[2 * i], v[2 * i + 1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  for (int i = 0; i < 4; i++)
    four[i] = OMNIFLOW_FOLD(pair[2 * i], pair[2 * i + 1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
              OMNIFLOW_FOLD(pair[2 * i], pair[2 * i + 1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  for (int i = 0; i < 2; i++)
    eight[i] = OMNIFLOW_FOLD(four[2 * i], four[2 * i + 1], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
               OMNIFLOW_FOLD(four[2 * i], four[2 * i + 1], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  return OMNIFLOW_FOLD(eight[0], eight[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
         OMNIFLOW_FOLD(eight[0], eight[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
#undef OMNIFLOW_FOLD
#endif
#endif
  f32x16 all;
  for (int i = 0; i < kLanes; i++) all[i] = sum(v[i]);
  return all;
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

constexpr int64_t kBlockTokens = kLanes; // tokens whose keys or values are worked on while the next ones are fetched
constexpr int kMaxGroup = 4;             // query heads that share one reading of keys or values

// One row's attention for the kv heads `from .. to`: queries [heads][head_dim] and out alike, both beginning at the
// first query head of `from`; keys and values [token][kv head][head_dim]. scores is scratch of `room` floats per query
// head, `room` >= count rounded up to kLanes. Tokens are taken in blocks counted from the extent's start, so that a
// token's sums are the same whatever the chunk it came in.
template <class Cache> class Attention {
public:
  typedef typename Cache::Element Element;

  Attention(const Element *keys, const Element *values, int64_t count, int64_t kv_heads, int64_t group,
            int64_t head_dim, int64_t from, int64_t to, float *scores, int64_t room)
      : keys_(keys + from * head_dim), values_(values + from * head_dim), count_(count), token_(kv_heads * head_dim),
        group_(group), size_(head_dim), heads_(to - from), scores_(scores), room_(room) {}

  void run(const float *queries, float *out) {
    for (int64_t t = 0; t < count_; t += kBlockTokens) {
      fetch(keys_, t + kBlockTokens);
      for_groups([&](auto width, int64_t kv, int64_t head) { score<width.value>(queries, kv, head, t); });
    }
    const int64_t all = heads_ * group_;
    std::memset(out, 0, all * size_ * sizeof(float));
    for (int64_t h = 0; h < all; h++) {
      const float inverse = 1.0f / exponentiate(scores_ + h * room_, count_);
      for (int64_t i = 0; i < count_; i++) scores_[h * room_ + i] *= inverse;
    }
    for (int64_t t = 0; t < count_; t += kBlockTokens) {
      fetch(values_, t + kBlockTokens);
      for_groups([&](auto width, int64_t kv, int64_t head) { mix<width.value>(out, kv, head, t); });
    }
  }

private:
  const Element *keys_, *values_;
  const int64_t count_, token_, group_, size_, heads_;
  float *scores_;
  const int64_t room_;

  template <int width> struct Width { static constexpr int value = width; };

  // Calls `work(width, kv head, first query head)` so that all query heads are covered, a few at a time.
  template <class Work> void for_groups(Work work) {
    for (int64_t kv = 0; kv < heads_; kv++)
      for (int64_t g = 0; g < group_; g += kMaxGroup) {
        const int64_t head = kv * group_ + g;
        switch (std::min<int64_t>(kMaxGroup, group_ - g)) {
        case 1: work(Width<1>(), kv, head); break;
        case 2: work(Width<2>(), kv, head); break;
        case 3: work(Width<3>(), kv, head); break;
        default: work(Width<4>(), kv, head); break;
        }
      }
  }

  void fetch(const Element *from, int64_t first) {
    const int64_t last = std::min(first + kBlockTokens, count_), bytes = heads_ * size_ * sizeof(Element);
    for (int64_t t = first; t < last; t++)
      for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch((const char *)(from + t * token_) + b, 0, 2);
  }

  template <int width> void score(const float *queries, int64_t kv, int64_t head, int64_t first) {
    f32x16 products[width][kBlockTokens];
    const int64_t tokens = std::min(kBlockTokens, count_ - first), whole = size_ / kLanes * kLanes;
    float rest[width][kBlockTokens] = {};
    for (int64_t t = 0; t < tokens; t++) {
      const Element *key = keys_ + (first + t) * token_ + kv * size_;
      const float *query = queries + head * size_;
      f32x16 acc[width] = {};
      for (int64_t d = 0; d < whole; d += kLanes) {
        const f32x16 k = Cache::read(key + d);
        for (int g = 0; g < width; g++) acc[g] += load<f32x16>(query + g * size_ + d) * k;
      }
      for (int g = 0; g < width; g++) products[g][t] = acc[g];
      for (int64_t d = whole; d < size_; d++)
        for (int g = 0; g < width; g++) rest[g][t] += query[g * size_ + d] * Cache::read_one(key + d);
    }
    const f32x16 scale = splat(1.0f / std::sqrt((float)size_));
    for (int g = 0; g < width; g++) {
      for (int64_t t = tokens; t < kBlockTokens; t++) products[g][t] = splat(0.0f);
      store(scores_ + (head + g) * room_ + first, (sums(products[g]) + load<f32x16>(rest[g])) * scale);
    }
  }

  template <int width> void mix(float *out, int64_t kv, int64_t head, int64_t first) {
    const int64_t tokens = std::min(kBlockTokens, count_ - first);
    const Element *values = values_ + first * token_ + kv * size_;
    const float *weights = scores_ + head * room_ + first;
    float *to = out + head * size_;
    int64_t d = 0;
    for (; d + 4 * kLanes <= size_; d += 4 * kLanes) columns<width, 4>(values + d, weights, tokens, to + d);
    for (; d + kLanes <= size_; d += kLanes) columns<width, 1>(values + d, weights, tokens, to + d);
    for (; d < size_; d++)
      for (int g = 0; g < width; g++)
        for (int64_t t = 0; t < tokens; t++)
          to[g * size_ + d] += weights[g * room_ + t] * Cache::read_one(values + t * token_ + d);
  }

  template <int width, int parts>
  void columns(const Element *values, const float *weights, int64_t tokens, float *to) {
    f32x16 acc[width][parts];
    for (int g = 0; g < width; g++)
      for (int p = 0; p < parts; p++) acc[g][p] = load<f32x16>(to + g * size_ + p * kLanes);
    for (int64_t t = 0; t < tokens; t++, values += token_)
      for (int p = 0; p < parts; p++) {
        const f32x16 v = Cache::read(values + p * kLanes);
        for (int g = 0; g < width; g++) acc[g][p] += splat(weights[g * room_ + t]) * v;
      }
    for (int g = 0; g < width; g++)
      for (int p = 0; p < parts; p++) store(to + g * size_ + p * kLanes, acc[g][p]);
  }
};

template <class Cache> void write_cache(const float *from, typename Cache::Element *to, int64_t size) {
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) Cache::write(to + d, load<f32x16>(from + d));
  for (; d < size; d++) Cache::write_one(to + d, from[d]);
}

} // namespace omniflow
