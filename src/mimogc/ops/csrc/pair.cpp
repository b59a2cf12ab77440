// Scores of pairs that do not separate, att_k · LeakyReLU(source_k(j) + target_k(i)), and GATv2's layer behind its map:
// these scores, their softmax and the sum over neighbours, a row at a time. Nothing of the size E·K·C is stored. The
// gradients are computed on one thread in one pass over the edges, on several by target and then by source.
#include "pair.h"

#include "pages.h"
#include "softmax.h"
#include "split.h"

namespace mimogc {
namespace {

// The layer as its rows see it.
template <class T>
struct Attention {
    const MimogcGraph& graph;
    const MimogcPairs& given;
    const int64_t K, C, width;
    const T slope;
    const Pairs<T> pairs;
    const Tail<T> tail;

    Attention(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcPairs& given)
        : graph(graph),
          given(given),
          K(sizes.K),
          C(sizes.C),
          width(K * C),
          slope(T(sizes.slope)),
          pairs(given, width),
          tail(C) {}

    int64_t work() const { return 2 * graph.num_edges * width; }
    Neighbours of(int64_t i) const {
        const int32_t first = graph.rowptr[i];
        return {graph.sources + first, graph.rowptr[i + 1] - first, graph.num_edges - first};
    }
    // The row of target i among those of the targets.
    int64_t row(int64_t i) const { return graph.parent ? graph.parent[i] : i; }
    // The sums of α over the types of the edges into i, or the gradients to them; null where there are none.
    T* received(int64_t i) const { return given.received ? as<T>(given.received) + i * given.types * K : nullptr; }

    // out [count, K] = the scores of the edges into i.
    void scores(int64_t i, T* out) const {
        const Neighbours nb = of(i);
        for (int64_t e = 0; e < nb.count; e++) {
            const Ends<T> ends = pairs.of(graph.rowptr[i] + e, nb.index[e], row(i));
            for_heads(K, [&](auto KB, int64_t k) {
                pair_score<T, KB>(C, slope, tail, ends.from(k * C), pairs.att + k * C, out + e * K + k);
            });
        }
    }

    void forward(int64_t i, const T* bias, T* alpha, T* out, std::vector<T>& room) const {
        const Neighbours nb = of(i);
        scores(i, alpha);
        softmax_row<T>(K, nb.count, alpha, alpha, room);
        sum_heads<T>(nb, K, C, alpha, pairs.source, out);
        for (int64_t c = 0; bias && c < C; c++) out[c] += bias[c];
        if (T* sums = received(i)) {
            std::fill_n(sums, given.types * K, T(0));
            for (int64_t e = 0; e < nb.count; e++)
                for (int64_t k = 0; k < K; k++) sums[pairs.kinds[graph.rowptr[i] + e] * K + k] += alpha[e * K + k];
        }
    }

    // grad = the gradient to the scores of the edges into i.
    void score_grad(int64_t i, const T* alpha, const T* g, T* grad, std::vector<T>& room) const {
        const Neighbours nb = of(i);
        const T* of_types = received(i);
        for (int64_t e = 0; e < nb.count; e++) {
            const T* h = pairs.source + nb.index[e] * width;
            for_heads(K, [&](auto KB, int64_t k) { dot_heads<T, KB>(C, tail, g, h + k * C, grad + e * K + k); });
            if (of_types)
                for (int64_t k = 0; k < K; k++) grad[e * K + k] += of_types[pairs.kinds[graph.rowptr[i] + e] * K + k];
        }
        softmax_row_grad<T>(K, nb.count, alpha, grad, grad, room);
    }

    // What the ends of edge e: j → i get through its scores, whose gradients are `of_scores` [K].
    void pair_grad(int64_t e, int64_t j, int64_t i, const T* of_scores, const Grads<T>& to) const {
        const Ends<T> ends = pairs.of(e, j, row(i));
        for (int64_t k = 0, q = 0; k < K; k++, q += C)
            pair_score_grad<T>(C, slope, tail, of_scores[k], ends.from(q), pairs.att + q, to.from(q));
    }
    // What its source gets through the sum.
    void sum_grad(const T* alpha, const T* __restrict__ g, T* __restrict__ to) const {
        for (int64_t k = 0; k < K; k++)
            for (int64_t c = 0; c < C; c++) to[k * C + c] += alpha[k] * g[c];
    }
};

// What the gradients come from: those to the scores are given, or where there is an `alpha` made of it and g.
template <class T>
struct Given {
    const T *alpha, *g;
    T* of_scores;  // [num_edges, K]
};

template <class T>
struct To {
    T *source, *target, *att, *table;
};

// By target, some rows per thread: the gradients to the scores, to att and to the targets; with `all` those to the
// sources and to the table, too, on one thread, where all but that to att begin as zeros. A sum over all edges loses
// digits, so the rows of that to att are added in double.
template <class T>
void by_target(const Attention<T>& at, int threads, bool all, const Given<T>& given, const To<T>& to) {
    const MimogcGraph& graph = at.graph;
    const int64_t K = at.K, width = at.width;
    std::vector<double> totals(threads * width, 0.0);
    std::vector<T> rows(threads * width);
    std::vector<std::vector<T>> rooms(threads, std::vector<T>(2 * K));
    Team team(threads);
    team.run([&] {
#pragma omp for schedule(static, 1)
        for (int part = 0; part < threads; part++) {
            double* total = totals.data() + part * width;
            T* of_row = rows.data() + part * width;
            const int64_t last = first_row(graph.rowptr, graph.num_dst, part + 1, threads);
            for (int64_t i = first_row(graph.rowptr, graph.num_dst, part, threads); i < last; i++) {
                T* own = to.target + at.row(i) * width;
                if (!all) std::fill_n(own, width, T(0));
                std::fill_n(of_row, width, T(0));
                const int64_t begin = graph.rowptr[i] * K;
                const T* g = given.alpha ? given.g + i * at.C : nullptr;
                if (given.alpha) at.score_grad(i, given.alpha + begin, g, given.of_scores + begin, rooms[part]);
                for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
                    const int64_t j = graph.sources[e];
                    T* source = all ? to.source + j * width : nullptr;
                    T* type = all && to.table ? to.table + at.pairs.kinds[e] * width : nullptr;
                    at.pair_grad(e, j, i, given.of_scores + e * K, {own, source, of_row, type});
                    if (all && given.alpha) at.sum_grad(given.alpha + e * K, g, source);
                }
                for (int64_t c = 0; c < width; c++) total[c] += of_row[c];
            }
        }
    });
    for (int64_t c = 0; c < width; c++) {
        double total = 0;
        for (int part = 0; part < threads; part++) total += totals[part * width + c];
        to.att[c] = T(total);
    }
}

template <class T>
void by_source(const Attention<T>& at, int threads, const Given<T>& given, const To<T>& to) {
    const MimogcGraph& graph = at.graph;
    for_rows<T>(graph.colptr, graph.num_src, at.work(), threads, [&](int64_t j, std::vector<T>&) {
        T* own = to.source + j * at.width;
        if (to.source != to.target || j >= graph.num_dst) std::fill_n(own, at.width, T(0));
        for (int64_t q = graph.colptr[j]; q < graph.colptr[j + 1]; q++) {
            const int64_t e = graph.slot[q], i = graph.targets[q];
            at.pair_grad(e, j, i, given.of_scores + e * at.K, {own, nullptr, nullptr, nullptr});
            if (given.alpha) at.sum_grad(given.alpha + e * at.K, given.g + i * at.C, own);
        }
    });
}

template <class T>
void gradients(const Attention<T>& at, int most_threads, const Given<T>& given, const To<T>& to) {
    const MimogcGraph& graph = at.graph;
    const int threads = graph.parent ? 1 : threads_for(at.work(), most_threads);  // several may have one parent
    const int64_t targets = graph.parent ? graph.num_src : graph.num_dst;
    if (to.table) std::fill_n(to.table, at.given.types * at.width, T(0));
    if (threads == 1) {
        std::fill_n(to.source, graph.num_src * at.width, T(0));
        if (to.target != to.source) std::fill_n(to.target, targets * at.width, T(0));
        return by_target<T>(at, threads, true, given, to);
    }
    by_target<T>(at, threads, false, given, to);
    by_source<T>(at, threads, given, to);
    for (int64_t i = 0; to.table && i < graph.num_dst; i++)  // in the order of the edges
        for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++)
            at.pair_grad(e, graph.sources[e], i, given.of_scores + e * at.K,
                         {to.table + at.pairs.kinds[e] * at.width, nullptr, nullptr, nullptr});
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_pair_scores(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        const Attention<T> at(*graph, *sizes, *pairs);
        for_rows<T>(graph->rowptr, graph->num_dst, at.work(), sizes->threads,
                    [&](int64_t i, std::vector<T>&) { at.scores(i, as<T>(out) + graph->rowptr[i] * at.K); });
    });
}

int64_t mimogc_pair_scores_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs,
                                const void* g, void* grad_source, void* grad_target, void* grad_att) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        gradients<T>({*graph, *sizes, *pairs}, sizes->threads, {nullptr, nullptr, const_cast<T*>(as<T>(g))},
                     {as<T>(grad_source), as<T>(grad_target), as<T>(grad_att), nullptr});
    });
}

int64_t mimogc_attention(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs, const void* bias,
                         void* alpha, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        const Attention<T> at(*graph, *sizes, *pairs);
        for_rows<T>(graph->rowptr, graph->num_dst, at.work(), sizes->threads, [&](int64_t i, std::vector<T>& room) {
            at.forward(i, as<T>(bias), as<T>(alpha) + graph->rowptr[i] * at.K, as<T>(out) + i * at.C, room);
        });
    });
}

int64_t mimogc_attention_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcPairs* pairs,
                              const void* alpha, const void* g, void* grad_source, void* grad_target, void* grad_att,
                              void* grad_table) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        const Room<T> of_scores(graph->num_edges * sizes->K);
        gradients<T>({*graph, *sizes, *pairs}, sizes->threads, {as<T>(alpha), as<T>(g), of_scores.get()},
                     {as<T>(grad_source), as<T>(grad_target), as<T>(grad_att), as<T>(grad_table)});
    });
}
