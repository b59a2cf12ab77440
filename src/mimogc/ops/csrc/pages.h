// Large arrays on huge pages: random access to small ones misses the table of addresses at every step.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mimogc {

constexpr int64_t kHugePage = 1 << 21;

// Asks for huge pages where `bytes` at `start` are many and not written to yet; elsewhere, nothing happens.
inline void ask_for_huge_pages(void* start, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t first = (uintptr_t(start) + kHugePage - 1) & ~uintptr_t(kHugePage - 1);
    const uintptr_t last = (uintptr_t(start) + uintptr_t(bytes)) & ~uintptr_t(kHugePage - 1);
    if (last > first && bytes >= 2 * kHugePage) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

// An array that is not set to zero, unlike a vector; rows of a power of two do not cross the lines of the cache.
template <class T>
class Room {
  public:
    explicit Room(int64_t size) : values(nullptr, std::free) {
        const int64_t bytes = size * int64_t(sizeof(T)), line = bytes < 2 * kHugePage ? 64 : kHugePage;
        if (!size) return;
        values.reset(static_cast<T*>(std::aligned_alloc(line, (bytes + line - 1) / line * line)));
        if (!values) throw std::bad_alloc();
        ask_for_huge_pages(values.get(), bytes);
    }
    T* get() const { return values.get(); }
    T& operator[](int64_t at) const { return values.get()[at]; }
    void release() { values.reset(); }

  private:
    std::unique_ptr<T, void (*)(void*)> values;
};

// Rows that are gathered from anywhere: a copy on huge pages where they are large and each is read several times, since
// then most of the time of a gather would go into finding small pages; else as they are.
template <class T>
class Gathered {
  public:
    Gathered(const T* given, int64_t size, int64_t rows, int64_t edges, int threads)
        : copy(size * int64_t(sizeof(T)) >= kWorth && edges >= 8 * rows ? size : 0),
          rows_(copy.get() ? copy.get() : given) {
        if (!copy.get()) return;
        constexpr int64_t step = kHugePage / int64_t(sizeof(T));
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t first = 0; first < size; first += step)
            std::copy_n(given + first, std::min(step, size - first), copy.get() + first);
    }
    const T* rows() const { return rows_; }

  private:
    static constexpr int64_t kWorth = 32 * kHugePage;
    Room<T> copy;
    const T* rows_;
};

}  // namespace mimogc
