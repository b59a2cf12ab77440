// Scores of pairs that do not separate, att_k · LeakyReLU(source_k(j) + target_k(i)) (GATv2): nothing of the size E·K·C
// is stored. The type of an edge may add a row of a table to the sum.
#include "call.h"
#include "rows.h"
#include "simd.h"
#include "split.h"

namespace mimogc {
namespace {

// The rows of one edge, from one graph on: K·C numbers each; `type` may be null.
template <class T>
struct Ends {
    const T *source, *target, *type;

    T sum(int64_t c) const { return type ? source[c] + target[c] + type[c] : source[c] + target[c]; }
    Vec<T> sums(int64_t c) const {
        const Vec<T> both = load(source + c) + load(target + c);
        return type ? both + load(type + c) : both;
    }
    Ends from(int64_t c) const { return {source + c, target + c, type ? type + c : nullptr}; }
};

// Where the arrays are, and the rows of an edge in them.
template <class T>
struct Pairs {
    const T *source, *target, *att, *table;
    const int64_t* kinds;
    int64_t width;

    Pairs(const MimogcPairs& given, int64_t width)
        : source(as<T>(given.source)),
          target(as<T>(given.target)),
          att(as<T>(given.att)),
          table(as<T>(given.table)),
          kinds(given.kinds),
          width(width) {}
    // Of edge e: j → i.
    Ends<T> of(int64_t e, int64_t j, int64_t i) const {
        return {source + j * width, target + i * width, table ? table + kinds[e] * width : nullptr};
    }
};

// The channels that fill no vector are the last of a block that ends at C: `fresh` are those that no block before had.
template <class T>
struct Tail {
    Vec<T> fresh;  // 1 there, else 0
    int64_t whole, start;

    explicit Tail(int64_t C) : fresh{}, whole(C / Simd<T>::lanes * Simd<T>::lanes), start(C - Simd<T>::lanes) {
        for (int i = 0; i < Simd<T>::lanes; i++) fresh[i] = T(start + i >= whole);
    }
    bool any() const { return start + Simd<T>::lanes > whole; }
};

// out[k] = Σ_c a[k, c] LeakyReLU(z[k, c]) for KB graphs.
template <class T, int KB>
inline void pair_score(int64_t C, T slope, const Tail<T>& tail, const Ends<T>& ends, const T* a, T* out) {
    constexpr int lanes = Simd<T>::lanes;
    if (C < lanes) {
        for (int k = 0; k < KB; k++) {
            out[k] = 0;
            for (int64_t c = k * C; c < (k + 1) * C; c++) {
                const T z = ends.sum(c);
                out[k] += a[c] * (z > T(0) ? z : z * slope);
            }
        }
        return;
    }
    Vec<T> acc[KB] = {};
#pragma GCC unroll 4
    for (int k = 0; k < KB; k++) {
        for (int64_t c = k * C; c < k * C + tail.whole; c += lanes) {
            const Vec<T> z = ends.sums(c);
            acc[k] += load(a + c) * (z > T(0) ? z : z * slope);
        }
        if (tail.any()) {
            const Vec<T> z = ends.sums(k * C + tail.start);
            acc[k] += load(a + k * C + tail.start) * tail.fresh * (z > T(0) ? z : z * slope);
        }
    }
    lane_sums<T, KB>(acc, out);
}

// own[c] += g a[c] LeakyReLU'(z) and, where wanted, grad_a[c] += g LeakyReLU(z).
template <class T, bool kWithA>
inline void pair_score_grad(int64_t C, T slope, const Tail<T>& tail, T g, const Ends<T>& ends, const T* a, T* own,
                            T* grad_a) {
    constexpr int lanes = Simd<T>::lanes;
    const Vec<T> one = Vec<T>{} + g, other = Vec<T>{} + g * slope;
    if (C < lanes) {
        for (int64_t c = 0; c < C; c++) {
            const T z = ends.sum(c), step = (z > T(0) ? T(1) : slope) * g;
            own[c] += a[c] * step;
            if (kWithA) grad_a[c] += z * step;
        }
        return;
    }
    const auto at = [&](int64_t c, const Vec<T>& z, const Vec<T>& step) {
        store(own + c, load(own + c) + load(a + c) * step);
        if (kWithA) store(grad_a + c, load(grad_a + c) + z * step);
    };
    for (int64_t c = 0; c < tail.whole; c += lanes) {
        const Vec<T> z = ends.sums(c);
        at(c, z, z > T(0) ? one : other);
    }
    if (tail.any()) {
        const Vec<T> z = ends.sums(tail.start);
        at(tail.start, z, (z > T(0) ? one : other) * tail.fresh);
    }
}

template <class T>
void pair_scores(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& given, T* out) {
    const int64_t K = sizes.K, C = sizes.C, work = graph.num_edges * K * C;
    const Pairs<T> pairs(given, K * C);
    const Tail<T> tail(C);
    for_rows<T>(graph.rowptr, graph.num_dst, work, sizes.threads, [&](int64_t i, std::vector<T>&) {
        for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
            const Ends<T> ends = pairs.of(e, graph.sources[e], i);
            for_heads(K, [&](auto KB, int64_t k) {
                pair_score<T, KB>(C, T(sizes.slope), tail, ends.from(k * C), pairs.att + k * C, out + e * K + k);
            });
        }
    });
}

// By target: grad_target, and grad_att row by row. A sum over all edges loses digits, so the rows are added in double;
// each thread adds up a part of its own, and the parts are added in order.
template <class T>
void by_target(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& given, const T* g, T* grad_target,
               T* grad_att) {
    const int64_t K = sizes.K, C = sizes.C, width = K * C;
    const Pairs<T> pairs(given, width);
    const Tail<T> tail(C);
    const int parts = threads_for(graph.num_edges * width, sizes.threads);
    std::vector<double> totals(parts * width, 0.0);
    std::vector<T> rows(parts * width);
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int part = 0; part < parts; part++) {
        double* total = totals.data() + part * width;
        T* of_row = rows.data() + part * width;
        const int64_t last = first_row(graph.rowptr, graph.num_dst, part + 1, parts);
        for (int64_t i = first_row(graph.rowptr, graph.num_dst, part, parts); i < last; i++) {
            T* own = grad_target + i * width;
            std::fill_n(own, width, T(0));
            std::fill_n(of_row, width, T(0));
            for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
                const Ends<T> ends = pairs.of(e, graph.sources[e], i);
                for (int64_t k = 0; k < K; k++)
                    pair_score_grad<T, true>(C, T(sizes.slope), tail, g[e * K + k], ends.from(k * C), pairs.att + k * C,
                                             own + k * C, of_row + k * C);
            }
            for (int64_t c = 0; c < width; c++) total[c] += of_row[c];
        }
    }
    for (int64_t c = 0; c < width; c++) {
        double total = 0;
        for (int part = 0; part < parts; part++) total += totals[part * width + c];
        grad_att[c] = T(total);
    }
}

template <class T>
void by_source(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& given, const T* g,
               T* grad_source) {
    const int64_t K = sizes.K, C = sizes.C, width = K * C, work = graph.num_edges * width;
    const Pairs<T> pairs(given, width);
    const Tail<T> tail(C);
    for_rows<T>(graph.colptr, graph.num_src, work, sizes.threads, [&](int64_t j, std::vector<T>&) {
        T* own = grad_source + j * width;
        std::fill_n(own, width, T(0));
        for (int64_t q = graph.colptr[j]; q < graph.colptr[j + 1]; q++) {
            const int64_t e = graph.slot[q];
            const Ends<T> ends = pairs.of(e, j, graph.targets[q]);
            for (int64_t k = 0; k < K; k++)
                pair_score_grad<T, false>(C, T(sizes.slope), tail, g[e * K + k], ends.from(k * C), pairs.att + k * C,
                                          own + k * C, nullptr);
        }
    });
}

// By type, on one thread: what each row of the table gets, in the order of the edges.
template <class T>
void by_type(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& given, const T* g, T* grad_table) {
    const int64_t K = sizes.K, C = sizes.C, width = K * C;
    const Pairs<T> pairs(given, width);
    const Tail<T> tail(C);
    std::fill_n(grad_table, given.types * width, T(0));
    for (int64_t i = 0; i < graph.num_dst; i++)
        for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
            const Ends<T> ends = pairs.of(e, graph.sources[e], i);
            T* own = grad_table + pairs.kinds[e] * width;
            for (int64_t k = 0; k < K; k++)
                pair_score_grad<T, false>(C, T(sizes.slope), tail, g[e * K + k], ends.from(k * C), pairs.att + k * C,
                                          own + k * C, nullptr);
        }
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_pair_scores(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        pair_scores<T>(*graph, *sizes, *pairs, as<T>(out));
    });
}

int64_t mimogc_pair_scores_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs,
                                const void* g, void* grad_source, void* grad_target, void* grad_att, void* grad_table) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        by_target<T>(*graph, *sizes, *pairs, as<T>(g), as<T>(grad_target), as<T>(grad_att));
        by_source<T>(*graph, *sizes, *pairs, as<T>(g), as<T>(grad_source));
        if (grad_table) by_type<T>(*graph, *sizes, *pairs, as<T>(g), as<T>(grad_table));
    });
}
