// Sums over neighbours with α = tanh(s_i + t_j + u_e), recomputed wherever it is needed and never stored.
#include "gelu.h"
#include "mimogc.h"
#include "rows.h"
#include "split.h"

namespace mimogc {
namespace {

// Room for n values in whole vectors: what is computed of every value is then computed without a remainder.
template <class T>
int64_t whole_vectors(int64_t n) {
    return (n + Simd<T>::lanes - 1) / Simd<T>::lanes * Simd<T>::lanes;
}

// a[e, k] = tanh(own[k] + other[e, k] + u[e, k]) for the edges of one row; `edge` says where u of an edge is. `a` has
// room for whole vectors.
template <class T>
void fill_alpha(const Neighbours& nb, int64_t K, const T* own, const T* other, int64_t stride, const T* u,
                const int32_t* edge, T* a) {
    if (K == 4) {
        for (int64_t e = 0; e < nb.count; e++) {
            const T* score = other + nb.index[e] * stride;
            for (int k = 0; k < 4; k++) a[e * 4 + k] = own[k] + score[k];
        }
    } else {
        for (int64_t e = 0; e < nb.count; e++) {
            const T* score = other + nb.index[e] * stride;
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

template <class T>
void tanh_sum(int64_t first, int64_t rows, const int32_t* ptr, const int32_t* col, int64_t K, int64_t C, int32_t shape,
              const T* s, const T* t, int64_t stride, const T* u, const T* h, const T* bias, T* out, T* derivative,
              int threads) {
    ptr += first;
    const int64_t last = ptr[rows];
    for_rows<T>(ptr, rows, (last - ptr[0]) * K * C, threads, [&](int64_t i, std::vector<T>& scratch) {
        const Neighbours nb = {col + ptr[i], ptr[i + 1] - ptr[i], last - ptr[i]};
        scratch.resize(whole_vectors<T>(nb.count * K));
        T* a = scratch.data();
        fill_alpha<T>(nb, K, s + (first + i) * stride, t, stride, u ? u + ptr[i] * K : nullptr, nullptr, a);
        if (shape == kHeadsToSum) {
            T* target = out + (first + i) * C;
            sum_heads<T>(nb, K, C, a, h, target);
            if (bias)
                for (int64_t c = 0; c < C; c++) target[c] += bias[c];
            if (derivative) gelu(C, target, derivative + (first + i) * C);
        } else {
            for_heads(K,
                      [&](auto KB, int64_t k) { sum_shared<T, KB>(nb, C, a + k, K, h, C, out + (i * K + k) * C, C); });
        }
    });
}

template <class T>
void tanh_sum_grad(int64_t num_src, int64_t num_dst, const int32_t* colptr, const int32_t* row, const int32_t* edge,
                   const int32_t* rowptr, int64_t K, int64_t C, const T* s, const T* t, int64_t stride, const T* u,
                   const T* g, const T* h, T* grad_h, T* grad_s, T* grad_t, T* grad_score, int threads) {
    const int64_t E = colptr[num_src];
    for_rows<T>(colptr, num_src, 2 * E * K * C, threads, [&](int64_t j, std::vector<T>& scratch) {
        const Neighbours nb = {row + colptr[j], colptr[j + 1] - colptr[j], E - colptr[j]};
        const int32_t* at = edge + colptr[j];
        const int64_t n = whole_vectors<T>(nb.count * K);
        scratch.resize(2 * n);
        T *a = scratch.data(), *d = a + n;
        fill_alpha<T>(nb, K, t + j * stride, s, stride, u, at, a);
        for_heads(K, [&](auto KB, int64_t k) {
            sum_shared<T, KB>(nb, C, a + k, K, g, C, grad_h + (j * K + k) * C, C);
            dot_shared<T, KB>(nb, C, g, C, h + (j * K + k) * C, C, d + k, K);
        });
        T* total = grad_t + j * stride;
        for (int64_t k = 0; k < K; k++) total[k] = 0;
        for (int64_t q = 0; q < n; q++) d[q] *= T(1) - a[q] * a[q];
        for (int64_t e = 0; e < nb.count; e++) {
            T* score = grad_score + at[e] * K;
            for (int64_t k = 0; k < K; k++) {
                score[k] = d[e * K + k];
                total[k] += d[e * K + k];
            }
        }
    });
    for_rows<T>(rowptr, num_dst, E * K, threads, [&](int64_t i, std::vector<T>&) {
        T* total = grad_s + i * stride;
        for (int64_t k = 0; k < K; k++) total[k] = 0;
        for (int64_t e = rowptr[i]; e < rowptr[i + 1]; e++)
            for (int64_t k = 0; k < K; k++) total[k] += grad_score[e * K + k];
    });
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                            \
    void mimogc_tanh_sum_##S(int64_t first, int64_t rows, const int32_t* rowptr, const int32_t* col, int64_t K,        \
                             int64_t C, int32_t shape, const T* s, const T* t, int64_t stride, const T* u, const T* h, \
                             const T* bias, T* out, T* derivative, int32_t threads) {                                  \
        mimogc::tanh_sum<T>(first, rows, rowptr, col, K, C, shape, s, t, stride, u, h, bias, out, derivative,          \
                            threads);                                                                                  \
    }                                                                                                                  \
    void mimogc_tanh_sum_grad_##S(int64_t num_src, int64_t num_dst, const int32_t* colptr, const int32_t* row,         \
                                  const int32_t* edge, const int32_t* rowptr, int64_t K, int64_t C, const T* s,        \
                                  const T* t, int64_t stride, const T* u, const T* g, const T* h, T* grad_h,           \
                                  T* grad_s, T* grad_t, T* grad_score, int32_t threads) {                              \
        mimogc::tanh_sum_grad<T>(num_src, num_dst, colptr, row, edge, rowptr, K, C, s, t, stride, u, g, h, grad_h,     \
                                 grad_s, grad_t, grad_score, threads);                                                 \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
