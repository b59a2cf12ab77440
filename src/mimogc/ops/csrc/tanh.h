// Sums over neighbours with α = tanh(s_i + t_j + edge_e), recomputed wherever it is needed and never stored: what a
// team of threads does together, to be called by all of them.
#pragma once
#include "call.h"
#include "gelu.h"
#include "rows.h"
#include "split.h"

namespace mimogc {

// Room for n values in whole vectors: what is computed of every value is then computed without a remainder.
template <class T>
inline int64_t whole_vectors(int64_t n) {
    return (n + Simd<T>::lanes - 1) / Simd<T>::lanes * Simd<T>::lanes;
}

// Node i, or where there is a `parent`, the row that node i is one of.
inline int64_t row_of(const int32_t* parent, int64_t i) { return parent ? parent[i] : i; }

// MimogcScores of one type.
template <class T>
struct Scores {
    const T *s, *t, *edge;
    int64_t stride;
    const int64_t* kinds = nullptr;  // of the edges, where `received` is summed or read
    int64_t types = 0;
    T* received = nullptr;     // [num_dst, types, K]
    const T* scale = nullptr;  // [num_src]: α is multiplied by that of both ends

    // The scores of a whole layer, with st [num_src, 2K].
    Scores(const T* st, int64_t K, const MimogcWeights& given)
        : s(st),
          t(st + K),
          edge(as<T>(given.edge)),
          stride(2 * K),
          kinds(given.kinds),
          types(given.types),
          received(as<T>(given.received)),
          scale(as<T>(given.scale)) {}
    Scores(const T* s, const T* t, const T* edge, int64_t stride) : s(s), t(t), edge(edge), stride(stride) {}
    explicit Scores(const MimogcScores& given)
        : Scores(as<T>(given.s), as<T>(given.t), as<T>(given.edge), given.stride) {}
};

// a[e, k] = tanh(own[k] + other[e, k] + edge[e, k]) for the edges of one row; `slot` says where `edge` of an edge is,
// `parent` which row of `other` a neighbour has. Where there are `kinds`, `edge` has a row for each of these. `a` has
// room for whole vectors.
template <class T>
inline void fill_alpha(const Neighbours& nb, const int32_t* parent, int64_t K, const T* own, const T* other,
                       int64_t stride, const T* edge, const int32_t* slot, T* a, const int64_t* kinds = nullptr) {
    if (K == 4) {
        for (int64_t e = 0; e < nb.count; e++) {
            const T* score = other + row_of(parent, nb.index[e]) * stride;
            for (int k = 0; k < 4; k++) a[e * 4 + k] = own[k] + score[k];
        }
    } else {
        for (int64_t e = 0; e < nb.count; e++) {
            const T* score = other + row_of(parent, nb.index[e]) * stride;
            for (int64_t k = 0; k < K; k++) a[e * K + k] = own[k] + score[k];
        }
    }
    if (edge) {
        for (int64_t e = 0; e < nb.count; e++) {
            const int64_t place = slot ? int64_t(slot[e]) : e;
            const T* score = edge + (kinds ? kinds[place] : place) * K;
            for (int64_t k = 0; k < K; k++) a[e * K + k] += score[k];
        }
    }
    const int64_t n = std::is_same_v<T, float> ? whole_vectors<T>(nb.count * K) : nb.count * K;
    for (int64_t q = 0; q < n; q++) a[q] = fast_tanh(a[q]);
}

// a[e, k] times the scale of both ends of edge e, where `own` is that of the row.
template <class T>
inline void scale_rows(const Neighbours& nb, int64_t K, T own, const T* scale, T* a) {
    for (int64_t e = 0; e < nb.count; e++)
        for (int64_t k = 0; k < K; k++) a[e * K + k] *= own * scale[nb.index[e]];
}

// Rows first .. first + rows of mimogc_tanh_sum, shared by a team. The s of row i is that of row parent[i], if given.
// With bias or derivative as in mimogc_layer.
template <class T>
void share_tanh_sum(Team& team, const MimogcGraph& graph, const MimogcSizes& sizes, int64_t first, int64_t rows,
                    const Scores<T>& scores, const T* h, const T* bias, T* out, T* derivative) {
    const int32_t* ptr = graph.rowptr + first;
    const int64_t last = ptr[rows], K = sizes.K, C = sizes.C;
    const bool summed = sizes.shape == MIMOGC_HEADS_TO_SUM;
    team.share_rows<T>(ptr, rows, [=, &graph](int64_t i, std::vector<T>& scratch) {
        const Neighbours nb = {graph.sources + ptr[i], ptr[i + 1] - ptr[i], last - ptr[i]};
        scratch.resize(whole_vectors<T>(nb.count * K));
        T* a = scratch.data();
        const T* own = scores.s + row_of(graph.parent, first + i) * scores.stride;
        const T* edge = scores.edge && !scores.kinds ? scores.edge + ptr[i] * K : scores.edge;
        fill_alpha<T>(nb, nullptr, K, own, scores.t, scores.stride, edge, nullptr, a,
                      scores.kinds ? scores.kinds + ptr[i] : nullptr);
        if (scores.scale) scale_rows<T>(nb, K, scores.scale[first + i], scores.scale, a);
        if (scores.kinds) {
            T* received = scores.received + (first + i) * scores.types * K;
            std::fill_n(received, scores.types * K, T(0));
            for (int64_t e = 0; e < nb.count; e++)
                for (int64_t k = 0; k < K; k++) received[scores.kinds[ptr[i] + e] * K + k] += a[e * K + k];
        }
        if (summed) {
            T* target = out + (first + i) * C;
            sum_heads<T>(nb, K, C, a, h, target);
            if (bias)
                for (int64_t c = 0; c < C; c++) target[c] += bias[c];
            if (derivative) gelu(C, target, derivative + (first + i) * C);
        } else {
            sum_to_heads(nb, K, C, a, h, out + i * K * C);
        }
    });
}

// For the edges out of source j: α into the first values of `scratch`, the gradient of their scores into grad_edge,
// its sum into total; and the gradient to h(j) to grad_h, unless that is null.
template <class T>
Neighbours source_grad(int64_t j, const MimogcGraph& graph, const MimogcSizes& sizes, const Scores<T>& scores,
                       const T* h, const T* g, T* grad_h, T* total, T* grad_edge, std::vector<T>& scratch) {
    const int64_t begin = graph.colptr[j], K = sizes.K, C = sizes.C;
    const Neighbours nb = {graph.targets + begin, graph.colptr[j + 1] - begin, graph.num_edges - begin};
    const int32_t* slot = graph.slot + begin;
    const int64_t n = whole_vectors<T>(nb.count * K);
    scratch.resize(3 * n);
    T *a = scratch.data(), *d = a + n, *slope = d + n;
    fill_alpha<T>(nb, graph.parent, K, scores.t + j * scores.stride, scores.s, scores.stride, scores.edge, slot, a,
                  scores.kinds);
    for (int64_t q = 0; q < n; q++) slope[q] = T(1) - a[q] * a[q];
    if (scores.scale)
        for (T* values : {a, slope}) scale_rows<T>(nb, K, scores.scale[j], scores.scale, values);
    if (grad_h) sum_to_heads(nb, K, C, a, g, grad_h);  // this first: it fetches the rows of g ahead
    for_heads(K, [&](auto KB, int64_t k) { dot_shared<T, KB>(nb, C, g, C, h + (j * K + k) * C, C, d + k, K); });
    for (int64_t e = 0; scores.kinds && e < nb.count; e++) {
        const T* back = scores.received + (nb.index[e] * scores.types + scores.kinds[slot[e]]) * K;
        for (int64_t k = 0; k < K; k++) d[e * K + k] += back[k];
    }
    for (int64_t k = 0; k < K; k++) total[k] = 0;
    for (int64_t q = 0; q < n; q++) d[q] *= slope[q];
    for (int64_t e = 0; e < nb.count; e++) {
        T* score = grad_edge + slot[e] * K;
        for (int64_t k = 0; k < K; k++) {
            score[k] = d[e * K + k];
            total[k] += d[e * K + k];
        }
    }
    return nb;
}

// total[k] = Σ_e grad_edge[e, k] over the edges begin .. end into a row: the gradient to its s.
template <class T>
inline void score_totals(int64_t begin, int64_t end, int64_t K, const T* grad_edge, T* total) {
    for (int64_t k = 0; k < K; k++) total[k] = 0;
    for (int64_t e = begin; e < end; e++)
        for (int64_t k = 0; k < K; k++) total[k] += grad_edge[e * K + k];
}

}  // namespace mimogc
