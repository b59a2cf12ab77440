// Sorts edges into CSR and CSC by counting, linear in edges and nodes, and adds loops to a sorted graph.
#include <atomic>
#include <vector>

#include "call.h"
#include "pages.h"
#include "split.h"

namespace mimogc {
namespace {

constexpr int64_t kParallelEdges = 1 << 17;

// The arrays of a graph, one behind the other, as mimogc_sort_edges writes them.
struct Arrays {
    int32_t *rowptr, *colptr, *sources, *position, *targets, *slot;

    Arrays(int32_t* out, int64_t num_src, int64_t num_dst, int64_t capacity)
        : rowptr(out),
          colptr(rowptr + num_dst + 1),
          sources(colptr + num_src + 1),
          position(sources + capacity),
          targets(position + capacity),
          slot(targets + capacity) {}
};

// A stable counting sort by some threads, each of which has a part of the items. items(part, use) calls use(key, ...)
// for the items of a part, in order; it is called twice. write(place, ...) gets what use got behind the key.
// Fills ptr [keys + 1].
template <class Items, class Write>
void counting_sort(int parts, int64_t keys, int32_t* ptr, const Items& items, const Write& write) {
    std::vector<int32_t> next(parts * keys, 0);
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int part = 0; part < parts; part++) {
        int32_t* count = next.data() + part * keys;
        items(part, [count](int64_t key, auto...) { count[key]++; });
    }
    int32_t total = 0;
    for (int64_t key = 0; key < keys; key++) {
        ptr[key] = total;
        for (int part = 0; part < parts; part++) {
            const int32_t here = next[part * keys + key];
            next[part * keys + key] = total;
            total += here;
        }
    }
    ptr[keys] = total;
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int part = 0; part < parts; part++) {
        int32_t* place = next.data() + part * keys;
        items(part, [place, &write](int64_t key, auto... rest) { write(place[key]++, rest...); });
    }
}

// The first edge with an index out of range, or -1.
template <class Index>
int64_t out_of_range(int parts, const Index* src, const Index* dst, int64_t num_edges, int64_t num_src,
                     int64_t num_dst) {
    std::vector<int64_t> found(parts, -1);
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int part = 0; part < parts; part++) {
        const int64_t last = num_edges * (part + 1) / parts;
        for (int64_t e = num_edges * part / parts; e < last; e++)
            if (src[e] < 0 || src[e] >= num_src || dst[e] < 0 || dst[e] >= num_dst) {
                found[part] = e;
                break;
            }
    }
    for (int64_t e : found)
        if (e >= 0) return e;
    return -1;
}

template <class Index>
int64_t sort_edges(const Index* src, const Index* dst, int64_t num_edges, int64_t num_src, int64_t num_dst,
                   bool replace_loops, int threads, int32_t* out) {
    const int64_t loops = replace_loops ? std::min(num_src, num_dst) : 0, capacity = num_edges + loops;
    const Arrays to(out, num_src, num_dst, capacity);
    // Every thread counts for itself: not so many that the counts need more memory than the edges.
    const int64_t most = 1 + num_edges / (std::max(num_src, num_dst) + 1);
    const int parts = num_edges < kParallelEdges ? 1 : int(std::min<int64_t>(threads, most));
    const int64_t wrong = out_of_range(parts, src, dst, num_edges, num_src, num_dst);
    if (wrong >= 0) return -1 - wrong;

    // By source: the destination and the place in the given order, -1 for an added loop.
    struct End {
        int32_t target, given;
    };
    Room<End> ends(capacity);
    counting_sort(
        parts, num_src, to.colptr,
        [&](int part, const auto& use) {
            const int64_t last = num_edges * (part + 1) / parts;
            for (int64_t e = num_edges * part / parts; e < last; e++)
                if (!replace_loops || src[e] != dst[e]) use(src[e], End{int32_t(dst[e]), int32_t(e)});
            for (int64_t i = 0; part == parts - 1 && i < loops; i++) use(i, End{int32_t(i), -1});
        },
        [&](int64_t place, End end) { ends[place] = end; });

    // By destination, stable: within a row the sources ascend.
    counting_sort(
        parts, num_dst, to.rowptr,
        [&](int part, const auto& use) {
            const int64_t last = first_row(to.colptr, num_src, part + 1, parts);
            for (int64_t j = first_row(to.colptr, num_src, part, parts); j < last; j++)
                for (int64_t q = to.colptr[j]; q < to.colptr[j + 1]; q++)
                    use(ends[q].target, int32_t(j), ends[q].given);
        },
        [&](int64_t place, int32_t source, int32_t given) {
            to.sources[place] = source;
            to.position[place] = given;
        });
    ends.release();

    // By source again, stable: within a column the destinations ascend.
    counting_sort(
        parts, num_src, to.colptr,
        [&](int part, const auto& use) {
            const int64_t last = first_row(to.rowptr, num_dst, part + 1, parts);
            for (int64_t i = first_row(to.rowptr, num_dst, part, parts); i < last; i++)
                for (int32_t p = to.rowptr[i]; p < to.rowptr[i + 1]; p++) use(to.sources[p], int32_t(i), p);
        },
        [&](int64_t place, int32_t target, int32_t p) {
            to.targets[place] = target;
            to.slot[place] = p;
        });
    return to.rowptr[num_dst];
}

// The neighbours of a node without its loops, or with all of them, and one loop behind those of smaller or equal
// number; `write(from, to)` for each, with from = -1 for the new loop. Both orders are sorted, so this is a copy.
template <class Write>
void with_loop(const int32_t* neighbour, int64_t begin, int64_t end, int64_t node, bool looped, bool replace,
               int64_t to, const Write& write) {
    int64_t q = begin;
    for (; q < end && neighbour[q] < node; q++) write(q, to++);
    for (; q < end && neighbour[q] == node; q++)
        if (!replace) write(q, to++);
    if (looped) write(-1, to++);
    for (; q < end; q++) write(q, to++);
}

// ptr of the new graph from that of the old one: without the loops there are, and with one for each of `loops` nodes.
void pointers(const int32_t* ptr, const int32_t* neighbour, int64_t nodes, int64_t loops, bool replace, int32_t* out) {
    out[0] = 0;
    for (int64_t i = 0; i < nodes; i++) {
        int32_t count = ptr[i + 1] - ptr[i] + (i < loops);
        if (replace) {
            const auto same = std::equal_range(neighbour + ptr[i], neighbour + ptr[i + 1], int32_t(i));
            count -= int32_t(same.second - same.first);
        }
        out[i + 1] = out[i] + count;
    }
}

int64_t add_loops(const MimogcGraph& graph, const int32_t* position, bool replace, int threads, int32_t* out) {
    const int64_t num_src = graph.num_src, num_dst = graph.num_dst, loops = std::min(num_src, num_dst);
    const Arrays to(out, num_src, num_dst, graph.num_edges + loops);
    pointers(graph.rowptr, graph.sources, num_dst, loops, replace, to.rowptr);
    pointers(graph.colptr, graph.targets, num_src, loops, replace, to.colptr);
    for_rows<int32_t>(graph.rowptr, num_dst, graph.num_edges, threads, [&](int64_t i, std::vector<int32_t>&) {
        with_loop(graph.sources, graph.rowptr[i], graph.rowptr[i + 1], i, i < loops, replace, to.rowptr[i],
                  [&](int64_t from, int64_t place) {
                      to.sources[place] = from < 0 ? int32_t(i) : graph.sources[from];
                      to.position[place] = from < 0 ? -1 : position[from];
                  });
    });
    for_rows<int32_t>(graph.colptr, num_src, graph.num_edges, threads, [&](int64_t j, std::vector<int32_t>&) {
        with_loop(graph.targets, graph.colptr[j], graph.colptr[j + 1], j, j < loops, replace, to.colptr[j],
                  [&](int64_t from, int64_t place) {
                      const int64_t i = from < 0 ? j : graph.targets[from];
                      to.targets[place] = int32_t(i);
                      // Edges of a row before its loop keep their distance to its begin, those behind it to its end.
                      if (from < 0) {
                          const int32_t *row = to.sources + to.rowptr[i], *end = to.sources + to.rowptr[i + 1];
                          const int32_t* behind = std::upper_bound(row, end, int32_t(i));
                          to.slot[place] = to.rowptr[i] + int32_t(behind - row) - 1;
                      } else if (j <= i) {
                          to.slot[place] = to.rowptr[i] + (graph.slot[from] - graph.rowptr[i]);
                      } else {
                          to.slot[place] = to.rowptr[i + 1] - (graph.rowptr[i + 1] - graph.slot[from]);
                      }
                  });
    });
    return to.rowptr[num_dst];
}

bool ascends(const int32_t* ptr, int64_t rows, int64_t edges) {
    if (ptr[0] != 0 || ptr[rows] != edges) return false;
    for (int64_t i = 0; i < rows; i++)
        if (ptr[i] > ptr[i + 1]) return false;
    return true;
}

int64_t check(const MimogcGraph& graph, int threads) {
    const int64_t num_src = graph.num_src, num_dst = graph.num_dst;
    if (!ascends(graph.rowptr, num_dst, graph.num_edges)) return -1;
    if (!ascends(graph.colptr, num_src, graph.num_edges)) return -3;
    std::atomic<bool> sources(true), targets(true), slot(true);
    for_rows<int32_t>(graph.rowptr, num_dst, graph.num_edges, threads, [&](int64_t i, std::vector<int32_t>&) {
        int32_t before = 0;
        for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; before = graph.sources[e++])
            if (graph.sources[e] < before || graph.sources[e] >= num_src) sources = false;
    });
    if (!sources) return -2;
    for_rows<int32_t>(graph.colptr, num_src, graph.num_edges, threads, [&](int64_t j, std::vector<int32_t>&) {
        int64_t before = -1;
        for (int64_t q = graph.colptr[j]; q < graph.colptr[j + 1]; before = graph.slot[q++]) {
            const int64_t i = graph.targets[q], e = graph.slot[q];
            if (i < 0 || i >= num_dst)
                targets = false;
            else if (e <= before || e < graph.rowptr[i] || e >= graph.rowptr[i + 1] || graph.sources[e] != j)
                slot = false;
        }
    });
    return !targets ? -4 : !slot ? -5 : 0;
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_check(const MimogcGraph* graph, int32_t threads) {
    return within_memory([&] { return check(*graph, threads); });
}

int64_t mimogc_sort_edges(const void* src, const void* dst, int32_t bytes, int64_t num_edges, int64_t num_src,
                          int64_t num_dst, int32_t replace_loops, int32_t threads, int32_t* out) {
    return within_memory([&] {
        return bytes == 4 ? sort_edges(as<int32_t>(src), as<int32_t>(dst), num_edges, num_src, num_dst,
                                       replace_loops != 0, threads, out)
                          : sort_edges(as<int64_t>(src), as<int64_t>(dst), num_edges, num_src, num_dst,
                                       replace_loops != 0, threads, out);
    });
}

int64_t mimogc_add_loops(const MimogcGraph* graph, const int32_t* position, int32_t replace, int32_t threads,
                         int32_t* out) {
    return within_memory([&] { return add_loops(*graph, position, replace != 0, threads, out); });
}
