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

template <class Cache>
float dot(const float *query, const typename Cache::Element *key, int64_t size) {
  f32x16 products = splat(0.0f);
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) products += load<f32x16>(query + d) * Cache::read(key + d);
  float total = sum(products);
  for (; d < size; d++) total += query[d] * Cache::read_one(key + d);
  return total;
}

// Softmax of `count` scores in place, without the division; returns the divisor.
inline float exponentiate(float *scores, int64_t count) {
  float most = scores[0];
  for (int64_t i = 1; i < count; i++) most = std::max(most, scores[i]);
  f32x16 total = splat(0.0f);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const f32x16 e = exponential(load<f32x16>(scores + i) - splat(most));
    store(scores + i, e);
    total += e;
  }
  float rest[kLanes] = {};
  if (i < count) {
    float padded[kLanes];
    for (int64_t j = 0; j < kLanes; j++) padded[j] = i + j < count ? scores[i + j] - most : -1e30f;
    store(rest, exponential(load<f32x16>(padded)));
    for (int64_t j = 0; i + j < count; j++) scores[i + j] = rest[j];
    for (int64_t j = count - i; j < kLanes; j++) rest[j] = 0;
  }
  return sum(total + load<f32x16>(rest));
}

// out[heads][head_dim]: `heads` query heads that share one kv head, over `count` tokens `stride` elements apart.
// scores is scratch for heads * count floats. Works on one head's sums at a time in registers of 64 columns.
template <class Cache>
void attend(const float *queries, const typename Cache::Element *keys, const typename Cache::Element *values,
            int64_t count, int64_t stride, int64_t heads, int64_t head_dim, float *scores, float *out) {
  const float scale = 1.0f / std::sqrt((float)head_dim);
  for (int64_t t = 0; t < count; t++)
    for (int64_t h = 0; h < heads; h++)
      scores[h * count + t] = dot<Cache>(queries + h * head_dim, keys + t * stride, head_dim) * scale;
  for (int64_t h = 0; h < heads; h++) {
    float *weights = scores + h * count;
    const float inverse = 1.0f / exponentiate(weights, count);
    float *to = out + h * head_dim;
    int64_t d = 0;
    for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes) {
      f32x16 acc[4] = {};
      for (int64_t t = 0; t < count; t++)
        for (int i = 0; i < 4; i++) acc[i] += splat(weights[t]) * Cache::read(values + t * stride + d + i * kLanes);
      for (int i = 0; i < 4; i++) store(to + d + i * kLanes, acc[i] * splat(inverse));
    }
    for (; d + kLanes <= head_dim; d += kLanes) {
      f32x16 acc = splat(0.0f);
      for (int64_t t = 0; t < count; t++) acc += splat(weights[t]) * Cache::read(values + t * stride + d);
      store(to + d, acc * splat(inverse));
    }
    for (; d < head_dim; d++) {
      float acc = 0;
      for (int64_t t = 0; t < count; t++) acc += weights[t] * Cache::read_one(values + t * stride + d);
      to[d] = acc * inverse;
    }
  }
}

template <class Cache> void write_cache(const float *from, typename Cache::Element *to, int64_t size) {
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) Cache::write(to + d, load<f32x16>(from + d));
  for (; d < size; d++) Cache::write_one(to + d, from[d]);
}

} // namespace omniflow
