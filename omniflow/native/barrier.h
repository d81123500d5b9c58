// Where the threads of a step wait for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace omniflow {

// Spins for some microseconds, which is what threads with equal shares need, and sleeps in short naps after that: when
// another process has taken the processor of a thread we wait for, ours is what it can run on. Naps, and not a wait
// that the last thread ends: its store of the new round and its look for sleepers may pass each other, and who has just
// gone to sleep is never woken then.
class Barrier {
public:
  void wait(int threads) {
    if (threads == 1) return;
    const uint32_t now = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(now + 1, std::memory_order_release);
      return;
    }
    for (int i = 0; round_.load(std::memory_order_acquire) == now; i++) {
      if (i < kSpins) pause();
      else if (i < kSpins + kYields) std::this_thread::yield();
      else std::this_thread::sleep_for(kNap);
    }
  }

private:
  static constexpr int kSpins = 2000, kYields = 500;
  static constexpr std::chrono::microseconds kNap{20};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
};

} // namespace omniflow
