// Sixteen lanes of 32 bits as compiler vectors: AVX-512 registers where they exist, pairs or quartets of narrower
// ones elsewhere. Everything but the dot products of bfloat16 and int8 is written once for all processors.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace omniflow {

typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));

constexpr int64_t kLanes = 16;

template <class Vector> inline Vector load(const void *from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Vector> inline void store(void *to, Vector value) { std::memcpy(to, &value, sizeof value); }

inline f32x16 splat(float x) { return f32x16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
inline u32x16 splat(uint32_t x) { return u32x16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

inline float sum(f32x16 v) {
  f32x8 eight[2];
  store(eight, v);
  f32x4 four[2];
  store(four, eight[0] + eight[1]);
  const f32x4 rest = four[0] + four[1];
  return (rest[0] + rest[2]) + (rest[1] + rest[3]);
}

inline f32x16 maximum(f32x16 a, f32x16 b) { return a > b ? a : b; }

// e^x to about one unit in the last place: x = n ln 2 + r with |r| <= ln 2 / 2, then the Taylor series of e^r to r^7
// (remainder below 6e-9) times 2^n. Arguments are clamped to where the result is a normal number.
inline f32x16 exponential(f32x16 x) {
  x = maximum(x, splat(-87.0f));
  x = x < splat(88.0f) ? x : splat(88.0f);
  const f32x16 turns = x * splat(1.44269504f);
  const i32x16 n = __builtin_convertvector(turns + (turns < splat(0.0f) ? splat(-0.5f) : splat(0.5f)), i32x16);
  const f32x16 whole = __builtin_convertvector(n, f32x16);
  const f32x16 r = (x - whole * splat(0.693145752f)) - whole * splat(1.42860677e-6f); // ln 2 in two parts
  f32x16 p = splat(1.0f / 5040);
  const float coefficients[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  for (float c : coefficients) p = p * r + splat(c);
  return p * (f32x16)((n + 127) << 23);
}

inline f32x16 silu(f32x16 x) { return x / (splat(1.0f) + exponential(-x)); }

// bfloat16 is the upper half of a float; rounding to it is to nearest, ties to even.
inline uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float from_bf16(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline u16x16 to_bf16(f32x16 x) {
  const u32x16 bits = (u32x16)x;
  return __builtin_convertvector((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, u16x16);
}

inline f32x16 from_bf16(u16x16 x) {
#if defined(__AVX512F__) // compilers widen sixteen halves in two pieces otherwise
  return (f32x16)((u32x16)_mm512_cvtepu16_epi32((__m256i)x) << 16);
#else
  return (f32x16)(__builtin_convertvector(x, u32x16) << 16);
#endif
}

// One type of cached keys and values: how to read and write them as floats.
struct Float32 {
  static constexpr bool in_pairs = false;
  typedef float Element;
  static f32x16 read(const float *from) { return load<f32x16>(from); }
  static float read_one(const float *from) { return *from; }
  static void write(float *to, f32x16 x) { store(to, x); }
  static void write_one(float *to, float x) { *to = x; }
};

struct BFloat16 {
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
  static constexpr bool in_pairs = true; // two columns, or two tokens of a column, are a word of a dot product
  static void write_words(const float *from, uint32_t *to) { // thirty-two columns to sixteen words
    store(to, _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + kLanes), _mm512_loadu_ps(from)));
  }
  static f32x16 add_pairs(f32x16 acc, u32x16 a, u32x16 b) {
    return (f32x16)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
  }
  // Words of thirty-two columns of two tokens to words of two tokens: sixteen columns, the upper ones for `half` 1.
  static u32x16 pair_tokens(u32x16 a, u32x16 b, int half) {
    typedef uint16_t u16x32 __attribute__((vector_size(64)));
    u16x32 order;
    for (int i = 0; i < kLanes; i++) order[2 * i] = 16 * half + i, order[2 * i + 1] = 32 + 16 * half + i;
    return (u32x16)_mm512_permutex2var_epi16((__m512i)a, (__m512i)order, (__m512i)b);
  }
#else
  static constexpr bool in_pairs = false;
#endif
  typedef uint16_t Element;
  static f32x16 read(const uint16_t *from) { return from_bf16(load<u16x16>(from)); }
  static float read_one(const uint16_t *from) { return from_bf16(*from); }
  static void write(uint16_t *to, f32x16 x) { store(to, to_bf16(x)); }
  static void write_one(uint16_t *to, float x) { *to = to_bf16(x); }
};

} // namespace omniflow
