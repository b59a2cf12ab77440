// The sums of tanh.h as functions of their own.
#include "tanh.h"

namespace mimogc {
namespace {

template <class T>
void tanh_sum(int64_t first, int64_t rows, const int32_t* rowptr, const int32_t* col, int64_t K, int64_t C,
              int32_t shape, const T* s, const T* t, int64_t stride, const T* u, const T* h, T* out, int threads) {
    threads = threads_for((int64_t(rowptr[first + rows]) - rowptr[first]) * K * C, threads);
    in_team(threads, [&] {
        share_tanh_sum<T>(first, rows, rowptr, col, nullptr, K, C, shape, s, t, stride, u, h, nullptr, out, nullptr,
                          threads);
    });
}

template <class T>
void tanh_sum_grad(int64_t num_src, int64_t num_dst, const int32_t* colptr, const int32_t* row, const int32_t* edge,
                   const int32_t* rowptr, int64_t K, int64_t C, const T* s, const T* t, int64_t stride, const T* u,
                   const T* g, const T* h, T* grad_h, T* grad_s, T* grad_t, T* grad_score, int threads) {
    threads = threads_for(2 * int64_t(colptr[num_src]) * K * C, threads);
    in_team(threads, [&] {
        share_rows<T>(colptr, num_src, threads, [&](int64_t j, std::vector<T>& scratch) {
            source_grad<T>(j, colptr, colptr[num_src], row, edge, nullptr, K, C, s, t, stride, u, g, h,
                           grad_h + j * K * C, grad_t + j * stride, grad_score, scratch);
        });
        share_rows<T>(rowptr, num_dst, threads, [&](int64_t i, std::vector<T>&) {
            score_totals<T>(rowptr[i], rowptr[i + 1], K, grad_score, grad_s + i * stride);
        });
    });
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                            \
    void mimogc_tanh_sum_##S(int64_t first, int64_t rows, const int32_t* rowptr, const int32_t* col, int64_t K,        \
                             int64_t C, int32_t shape, const T* s, const T* t, int64_t stride, const T* u, const T* h, \
                             T* out, int32_t threads) {                                                                \
        mimogc::tanh_sum<T>(first, rows, rowptr, col, K, C, shape, s, t, stride, u, h, out, threads);                  \
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
