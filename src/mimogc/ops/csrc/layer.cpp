// The paper's whole layer after the transform h = X Wᵀ: scores and sum in one call, and all their gradients in another.
#include "mimogc.h"

#define MIMOGC_DEFINE(T, S)                                                                                            \
    void mimogc_layer_##S(int64_t N, const int32_t* rowptr, const int32_t* col, int64_t K, int64_t C, T slope,         \
                          const T* h, const T* att, const T* u, const T* bias, T* st, T* out, T* derivative,           \
                          int32_t threads) {                                                                           \
        mimogc_scores_##S(N, K * C, 2 * K, slope, h, att, st, threads);                                                \
        mimogc_tanh_sum_##S(0, N, rowptr, col, K, C, kHeadsToSum, st, st + K, 2 * K, u, h, bias, out, derivative,      \
                            threads);                                                                                  \
    }                                                                                                                  \
    void mimogc_layer_grad_##S(int64_t N, const int32_t* colptr, const int32_t* row, const int32_t* edge,              \
                               const int32_t* rowptr, int64_t K, int64_t C, T slope, const T* h, const T* att,         \
                               const T* u, const T* st, const T* g, T* grad_st, T* grad_score, T* grad_h, T* grad_att, \
                               int32_t threads) {                                                                      \
        mimogc_tanh_sum_grad_##S(N, N, colptr, row, edge, rowptr, K, C, st, st + K, 2 * K, u, g, h, grad_h, grad_st,   \
                                 grad_st + K, grad_score, threads);                                                    \
        mimogc_scores_grad_##S(N, K * C, 2 * K, slope, h, att, grad_st, grad_h, grad_att, threads);                    \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
