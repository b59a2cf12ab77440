// Sums over neighbours with α = tanh(s_i + t_j + u_e), recomputed wherever it is needed and never stored: what a team
// of threads does together, to be called by all of them.
#pragma once
#include "gelu.h"
#include "mimogc.h"
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

// a[e, k] = tanh(own[k] + other[e, k] + u[e, k]) for the edges of one row; `edge` says where u of an edge is, `parent`
// which row of `other` a neighbour has. `a` has room for whole vectors.
template <class T>
inline void fill_alpha(const Neighbours& nb, const int32_t* parent, int64_t K, const T* own, const T* other,
                       int64_t stride, const T* u, const int32_t* edge, T* a) {
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
    if (u) {
        for (int64_t e = 0; e < nb.count; e++) {
            const T* score = u + (edge ? int64_t(edge[e]) : e) * K;
            for (int64_t k = 0; k < K; k++) a[e * K + k] += score[k];
        }
    }
    const int64_t n = std::is_same_v<T, float> ? whole_vectors<T>(nb.count * K) : nb.count * K;
    for (int64_t q = 0; q < n; q++) a[q] = fast_tanh(a[q]);
}

// Rows first .. first + rows of mimogc_tanh_sum, shared by a team. The s of row i is that of row parent[i], if given.
template <class T>
void share_tanh_sum(int64_t first, int64_t rows, const int32_t* ptr, const int32_t* col, const int32_t* parent,
                    int64_t K, int64_t C, int32_t shape, const T* s, const T* t, int64_t stride, const T* u, const T* h,
                    const T* bias, T* out, T* derivative, int threads) {
    ptr += first;
    const int64_t last = ptr[rows];
    share_rows<T>(ptr, rows, threads, [&](int64_t i, std::vector<T>& scratch) {
        const Neighbours nb = {col + ptr[i], ptr[i + 1] - ptr[i], last - ptr[i]};
        scratch.resize(whole_vectors<T>(nb.count * K));
        T* a = scratch.data();
        const T* own = s + row_of(parent, first + i) * stride;
        fill_alpha<T>(nb, nullptr, K, own, t, stride, u ? u + ptr[i] * K : nullptr, nullptr, a);
        if (shape == kHeadsToSum) {
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

// For the edges out of source j: α into the first values of `scratch`, the gradient of their scores into grad_score,
// its sum into total; and the gradient to h(j) to grad_h, unless that is null.
template <class T>
Neighbours source_grad(int64_t j, const int32_t* colptr, int64_t E, const int32_t* row, const int32_t* edge,
                       const int32_t* parent, int64_t K, int64_t C, const T* s, const T* t, int64_t stride, const T* u,
                       const T* g, const T* h, T* grad_h, T* total, T* grad_score, std::vector<T>& scratch) {
    const Neighbours nb = {row + colptr[j], colptr[j + 1] - colptr[j], E - colptr[j]};
    const int32_t* at = edge + colptr[j];
    const int64_t n = whole_vectors<T>(nb.count * K);
    scratch.resize(2 * n);
    T *a = scratch.data(), *d = a + n;
    fill_alpha<T>(nb, parent, K, t + j * stride, s, stride, u, at, a);
    if (grad_h) sum_to_heads(nb, K, C, a, g, grad_h);  // this first: it fetches the rows of g ahead
    for_heads(K, [&](auto KB, int64_t k) { dot_shared<T, KB>(nb, C, g, C, h + (j * K + k) * C, C, d + k, K); });
    for (int64_t k = 0; k < K; k++) total[k] = 0;
    for (int64_t q = 0; q < n; q++) d[q] *= T(1) - a[q] * a[q];
    for (int64_t e = 0; e < nb.count; e++) {
        T* score = grad_score + at[e] * K;
        for (int64_t k = 0; k < K; k++) {
            score[k] = d[e * K + k];
            total[k] += d[e * K + k];
        }
    }
    return nb;
}

// total[k] = Σ_e grad_score[e, k] over the edges begin .. end into a row: the gradient to its s.
template <class T>
inline void score_totals(int64_t begin, int64_t end, int64_t K, const T* grad_score, T* total) {
    for (int64_t k = 0; k < K; k++) total[k] = 0;
    for (int64_t e = begin; e < end; e++)
        for (int64_t k = 0; k < K; k++) total[k] += grad_score[e * K + k];
}

}  // namespace mimogc
