// Teams of threads, and rows split among them by their edges, so that a hub does not decide the time.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <vector>
#if defined(_OPENMP)
#include <omp.h>
#endif

namespace mimogc {

// Below this many multiply-adds a parallel region costs more than it saves.
constexpr int64_t kParallelWork = 60000;

inline int threads_for(int64_t work, int threads) { return work < kParallelWork ? 1 : threads; }

// The first row of part `part` of `parts`, each with about the same number of edges, where a row costs as `row` edges.
inline int64_t first_row(const int32_t* ptr, int64_t rows, int64_t part, int64_t parts, int64_t row = 2) {
    if (part == 0) return 0;
    if (part == parts) return rows;
    const int64_t total = int64_t(ptr[rows]) - ptr[0] + row * rows;
    const int64_t target = total * part / parts;
    int64_t low = 0, high = rows;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (int64_t(ptr[middle]) - ptr[0] + row * middle < target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Some threads, of which one is a team, too. No exception may leave a parallel region: a thread that finds no memory
// says so here, and `run` throws in its place.
class Team {
  public:
    explicit Team(int threads) : threads(threads) {}

    // Runs body on each thread. What it shares with `omp for` is shared in this team.
    template <class Body>
    void run(const Body& body) {
#pragma omp parallel num_threads(threads) if (threads > 1)
        body();
        if (short_of_memory) throw std::bad_alloc();
    }

    // Called by every thread inside of `run`: body(row, scratch) for every row, and all are done at the end. `scratch`
    // is a vector of the calling thread. Each row is computed by one thread in one order, so the result does not depend
    // on which thread takes it.
    template <class T, class Body>
    void share_rows(const int32_t* ptr, int64_t rows, const Body& body) {
        const int64_t parts = threads > 1 ? std::min<int64_t>(rows, int64_t(threads) * 16) : 1;
        std::vector<T> scratch;
#pragma omp for schedule(dynamic, 1)
        for (int64_t part = 0; part < parts; part++) {
            try {
                const int64_t last = first_row(ptr, rows, part + 1, parts);
                for (int64_t i = first_row(ptr, rows, part, parts); i < last; i++) body(i, scratch);
            } catch (...) {
                short_of_memory = true;
            }
        }
    }

    // Which of its threads this is.
    int number() const {
#if defined(_OPENMP)
        return threads > 1 ? omp_get_thread_num() : 0;
#else
        return 0;
#endif
    }

    const int threads;

  private:
    std::atomic<bool> short_of_memory{false};
};

// body(row, scratch) for every row, by a team of its own.
template <class T, class Body>
void for_rows(const int32_t* ptr, int64_t rows, int64_t work, int threads, const Body& body) {
    Team team(threads_for(work, threads));
    team.run([&] { team.share_rows<T>(ptr, rows, body); });
}

}  // namespace mimogc
