// Scores of pairs that do not separate, a_kᵀ LeakyReLU(p_k(j) + q_k(i)) (GATv2): nothing of the size E·K·C is stored.
#include "mimogc.h"
#include "simd.h"
#include "split.h"

namespace mimogc {
namespace {

// Σ_c a[c] LeakyReLU(p[c] + q[c])
template <class T>
T pair_score(int64_t C, T slope, const T* p, const T* q, const T* a) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> acc = {};
    int64_t c = 0;
    for (; c + lanes <= C; c += lanes) {
        const Vec<T> z = load(p + c) + load(q + c);
        acc += load(a + c) * (z > T(0) ? z : z * slope);
    }
    T total = lane_sum<T>(acc);
    for (; c < C; c++) {
        const T z = p[c] + q[c];
        total += a[c] * (z > T(0) ? z : z * slope);
    }
    return total;
}

// own[c] += g a[c] LeakyReLU'(z) and, where wanted, grad_a[c] += g LeakyReLU(z), with z = p + q.
template <class T, bool kWithA>
void pair_score_grad(int64_t C, T slope, T g, const T* p, const T* q, const T* a, T* own, T* grad_a) {
    constexpr int lanes = Simd<T>::lanes;
    const Vec<T> one = Vec<T>{} + T(1);
    int64_t c = 0;
    for (; c + lanes <= C; c += lanes) {
        const Vec<T> z = load(p + c) + load(q + c);
        const Vec<T> step = (z > T(0) ? one : one * slope) * g;
        store(own + c, load(own + c) + load(a + c) * step);
        if (kWithA) store(grad_a + c, load(grad_a + c) + z * step);
    }
    for (; c < C; c++) {
        const T z = p[c] + q[c], step = (z > T(0) ? T(1) : slope) * g;
        own[c] += a[c] * step;
        if (kWithA) grad_a[c] += z * step;
    }
}

template <class T>
void pair_scores(int64_t rows, const int32_t* rowptr, const int32_t* col, int64_t K, int64_t C, T slope, const T* p,
                 const T* q, const T* a, T* out, int threads) {
    for_rows<T>(rowptr, rows, int64_t(rowptr[rows]) * K * C, threads, [&](int64_t i, std::vector<T>&) {
        for (int64_t e = rowptr[i]; e < rowptr[i + 1]; e++)
            for (int64_t k = 0; k < K; k++)
                out[e * K + k] = pair_score<T>(C, slope, p + (col[e] * K + k) * C, q + (i * K + k) * C, a + k * C);
    });
}

template <class T>
void pair_scores_grad(int64_t num_src, int64_t num_dst, const int32_t* rowptr, const int32_t* col,
                      const int32_t* colptr, const int32_t* row, const int32_t* edge, int64_t K, int64_t C, T slope,
                      const T* p, const T* q, const T* a, const T* g, T* grad_p, T* grad_q, T* grad_a, int threads) {
    const int64_t E = rowptr[num_dst], width = K * C;
    const int parts = threads_for(E * width, threads);
    // By target: grad_q, and grad_a row by row. A sum over all edges loses digits, so the rows are added in double;
    // each thread adds up a part of its own, and the parts are added in order.
    std::vector<double> partial(int64_t(parts) * width, 0.0);
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int part = 0; part < parts; part++) {
        double* total = partial.data() + part * width;
        std::vector<T> of_row(width);
        const int64_t last = first_row(rowptr, num_dst, part + 1, parts);
        for (int64_t i = first_row(rowptr, num_dst, part, parts); i < last; i++) {
            T* own = grad_q + i * width;
            std::fill(own, own + width, T(0));
            std::fill(of_row.begin(), of_row.end(), T(0));
            for (int64_t e = rowptr[i]; e < rowptr[i + 1]; e++)
                for (int64_t k = 0; k < K; k++)
                    pair_score_grad<T, true>(C, slope, g[e * K + k], p + (col[e] * K + k) * C, q + (i * K + k) * C,
                                             a + k * C, own + k * C, of_row.data() + k * C);
            for (int64_t c = 0; c < width; c++) total[c] += of_row[c];
        }
    }
    for (int64_t c = 0; c < width; c++) {
        double total = 0;
        for (int part = 0; part < parts; part++) total += partial[part * width + c];
        grad_a[c] = T(total);
    }
    // By source: grad_p.
    for_rows<T>(colptr, num_src, E * width, threads, [&](int64_t j, std::vector<T>&) {
        T* own = grad_p + j * width;
        std::fill(own, own + width, T(0));
        for (int64_t e = colptr[j]; e < colptr[j + 1]; e++)
            for (int64_t k = 0; k < K; k++)
                pair_score_grad<T, false>(C, slope, g[edge[e] * K + k], p + (j * K + k) * C, q + (row[e] * K + k) * C,
                                          a + k * C, own + k * C, nullptr);
    });
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                            \
    void mimogc_pair_scores_##S(int64_t rows, const int32_t* rowptr, const int32_t* col, int64_t K, int64_t C,         \
                                T slope, const T* p, const T* q, const T* a, T* out, int32_t threads) {                \
        mimogc::pair_scores<T>(rows, rowptr, col, K, C, slope, p, q, a, out, threads);                                 \
    }                                                                                                                  \
    void mimogc_pair_scores_grad_##S(int64_t num_src, int64_t num_dst, const int32_t* rowptr, const int32_t* col,      \
                                     const int32_t* colptr, const int32_t* row, const int32_t* edge, int64_t K,        \
                                     int64_t C, T slope, const T* p, const T* q, const T* a, const T* g, T* grad_p,    \
                                     T* grad_q, T* grad_a, int32_t threads) {                                          \
        mimogc::pair_scores_grad<T>(num_src, num_dst, rowptr, col, colptr, row, edge, K, C, slope, p, q, a, g, grad_p, \
                                    grad_q, grad_a, threads);                                                          \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
