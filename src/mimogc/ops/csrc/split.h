// Splits rows among threads by their edges, so that a hub does not decide the time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace mimogc {

// Below this many multiply-adds a parallel region costs more than it saves.
constexpr int64_t kParallelWork = 60000;

inline int threads_for(int64_t work, int threads) { return work < kParallelWork ? 1 : threads; }

// The first row of part `part` of `parts`, each with about the same number of edges (a row costs as two edges).
inline int64_t first_row(const int32_t* ptr, int64_t rows, int64_t part, int64_t parts) {
    if (part == 0) return 0;
    if (part == parts) return rows;
    const int64_t total = int64_t(ptr[rows]) - ptr[0] + 2 * rows;
    const int64_t target = total * part / parts;
    int64_t low = 0, high = rows;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (int64_t(ptr[middle]) - ptr[0] + 2 * middle < target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Calls body(row, scratch) for every row. `scratch` is a vector of the calling thread. Each row is computed by one
// thread in one order, so the result does not depend on which thread takes it.
template <class T, class Body>
void for_rows(const int32_t* ptr, int64_t rows, int64_t work, int threads, const Body& body) {
    threads = threads_for(work, threads);
    if (threads <= 1) {
        std::vector<T> scratch;
        for (int64_t i = 0; i < rows; i++) body(i, scratch);
        return;
    }
    const int64_t parts = std::min<int64_t>(rows, int64_t(threads) * 16);
#pragma omp parallel num_threads(threads)
    {
        std::vector<T> scratch;
#pragma omp for schedule(dynamic, 1)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t last = first_row(ptr, rows, part + 1, parts);
            for (int64_t i = first_row(ptr, rows, part, parts); i < last; i++) body(i, scratch);
        }
    }
}

}  // namespace mimogc
