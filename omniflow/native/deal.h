// How the pairs of a product, or the items of attention, are dealt out to threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace omniflow {

// Pieces `from .. to`, pairs of a product for one block of its rows or items of attention; none when `from` is `to`.
struct Chunk {
  int64_t block = 0, from = 0, to = 0;
  bool exists() const { return from < to; }
};

// Every thread has a share of its own, which it takes chunk after chunk and so reads from memory in one run. Who is
// done takes chunks of the others' shares: the processors of a busy machine are not equally fast.
class Deal {
public:
  explicit Deal(int threads) : threads_(threads), taken_(new Taken[threads]) {}

  int threads() const { return threads_; }

  void renew() {
    for (int i = 0; i < threads_; i++) taken_[i].chunks.store(0, std::memory_order_relaxed);
  }

  Chunk take(int thread, int64_t pieces, int64_t blocks) {
    for (int i = 0; i < threads_; i++) {
      const int whose = (thread + i) % threads_;
      const int64_t from = pieces * whose / threads_, count = pieces * (whose + 1) / threads_ - from;
      if (count == 0) continue;
      const int64_t size = std::max<int64_t>(1, count / kChunks), chunks = (count + size - 1) / size;
      const int64_t chunk = taken_[whose].chunks.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= chunks * blocks) continue;
      const int64_t first = chunk % chunks * size;
      return {chunk / chunks, from + first, from + std::min(count, first + size)};
    }
    return {};
  }

private:
  static constexpr int64_t kChunks = 8; // of a share
  struct Taken {
    alignas(64) std::atomic<int64_t> chunks{0};
  };
  int threads_;
  std::unique_ptr<Taken[]> taken_;
};

} // namespace omniflow
