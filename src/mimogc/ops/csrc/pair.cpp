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

// Where the gradients of one edge and graph go, those that are wanted.
template <class T>
struct Grads {
    T *own, *other, *att, *type;

    void add(int64_t c, const Vec<T>& back, const Vec<T>& forth) const {
        store(own + c, load(own + c) + back);
        if (other) store(other + c, load(other + c) + back);
        if (type) store(type + c, load(type + c) + back);
        if (att) store(att + c, load(att + c) + forth);
    }
    void add(int64_t c, T back, T forth) const {
        own[c] += back;
        if (other) other[c] += back;
        if (type) type[c] += back;
        if (att) att[c] += forth;
    }
};

// The ends get g a[c] LeakyReLU'(z), att gets g LeakyReLU(z). Ends may be one row: each is read after the other is
// written.
template <class T>
inline void pair_score_grad(int64_t C, T slope, const Tail<T>& tail, T g, const Ends<T>& ends, const T* a,
                            const Grads<T>& to) {
    constexpr int lanes = Simd<T>::lanes;
    const Vec<T> one = Vec<T>{} + g, less = Vec<T>{} + g * slope;
    if (C < lanes) {
        for (int64_t c = 0; c < C; c++) {
            const T z = ends.sum(c), step = (z > T(0) ? T(1) : slope) * g;
            to.add(c, a[c] * step, z * step);
        }
        return;
    }
    for (int64_t c = 0; c < tail.whole; c += lanes) {
        const Vec<T> z = ends.sums(c), step = z > T(0) ? one : less;
        to.add(c, load(a + c) * step, z * step);
    }
    if (tail.any()) {
        const Vec<T> z = ends.sums(tail.start), step = (z > T(0) ? one : less) * tail.fresh;
        to.add(tail.start, load(a + tail.start) * step, z * step);
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
// each thread adds up a part of its own, and the parts are added in order. With grad_source and grad_table, which then
// begin as zeros, all is done in this one pass, on one thread.
template <class T>
void by_target(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& given, const T* g, T* grad_target,
               T* grad_att, T* grad_source, T* grad_table) {
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
            if (!grad_source) std::fill_n(own, width, T(0));
            std::fill_n(of_row, width, T(0));
            for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
                const Ends<T> ends = pairs.of(e, graph.sources[e], i);
                T* source = grad_source ? grad_source + graph.sources[e] * width : nullptr;
                T* type = grad_table ? grad_table + pairs.kinds[e] * width : nullptr;
                for (int64_t k = 0, q = 0; k < K; k++, q += C)
                    pair_score_grad<T>(C, T(sizes.slope), tail, g[e * K + k], ends.from(q), pairs.att + q,
                                       {own + q, source ? source + q : nullptr, of_row + q, type ? type + q : nullptr});
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
void by_source(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& given, const T* g, T* grad_source,
               bool add) {
    const int64_t K = sizes.K, C = sizes.C, width = K * C, work = graph.num_edges * width;
    const Pairs<T> pairs(given, width);
    const Tail<T> tail(C);
    for_rows<T>(graph.colptr, graph.num_src, work, sizes.threads, [&](int64_t j, std::vector<T>&) {
        T* own = grad_source + j * width;
        if (!add) std::fill_n(own, width, T(0));
        for (int64_t q = graph.colptr[j]; q < graph.colptr[j + 1]; q++) {
            const int64_t e = graph.slot[q];
            const Ends<T> ends = pairs.of(e, j, graph.targets[q]);
            for (int64_t k = 0; k < K; k++)
                pair_score_grad<T>(C, T(sizes.slope), tail, g[e * K + k], ends.from(k * C), pairs.att + k * C,
                                   {own + k * C, nullptr, nullptr, nullptr});
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
                pair_score_grad<T>(C, T(sizes.slope), tail, g[e * K + k], ends.from(k * C), pairs.att + k * C,
                                   {own + k * C, nullptr, nullptr, nullptr});
        }
}

template <class T>
void pair_scores_grad(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& pairs, const T* g,
                      T* grad_source, T* grad_target, T* grad_att, T* grad_table) {
    const int64_t width = sizes.K * sizes.C;
    if (threads_for(graph.num_edges * width, sizes.threads) == 1) {
        std::fill_n(grad_source, graph.num_src * width, T(0));
        if (grad_target != grad_source) std::fill_n(grad_target, graph.num_dst * width, T(0));
        if (grad_table) std::fill_n(grad_table, pairs.types * width, T(0));
        return by_target<T>(graph, sizes, pairs, g, grad_target, grad_att, grad_source, grad_table);
    }
    by_target<T>(graph, sizes, pairs, g, grad_target, grad_att, nullptr, nullptr);
    by_source<T>(graph, sizes, pairs, g, grad_source, grad_source == grad_target);
    if (grad_table) by_type<T>(graph, sizes, pairs, g, grad_table);
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
        pair_scores_grad<T>(*graph, *sizes, *pairs, as<T>(g), as<T>(grad_source), as<T>(grad_target), as<T>(grad_att),
                            as<T>(grad_table));
    });
}
