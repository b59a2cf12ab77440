// The end of a graph regressor: rows summed per graph, a linear map with GELU, and one to a number. Of few graphs and
// channels: one thread does it all before a second one could begin.
#include <algorithm>
#include <vector>

#include "gelu.h"
#include "mimogc.h"

namespace mimogc {
namespace {

template <class T>
int64_t readout(int64_t N, int64_t B, int64_t C, int64_t H, const T* h, const int64_t* owner, const T* w, const T* bias,
                const T* v, const T* offset, T* pooled, T* hidden, T* derivative, T* out) {
    std::fill(pooled, pooled + B * C, T(0));
    for (int64_t n = 0; n < N; n++) {
        if (owner[n] < 0 || owner[n] >= B) return -1 - n;
        T* sum = pooled + owner[n] * C;
        for (int64_t c = 0; c < C; c++) sum[c] += h[n * C + c];
    }
    std::vector<T> columns(C * H);  // Wᵀ: sums then run over rows of it
    for (int64_t q = 0; q < H; q++)
        for (int64_t c = 0; c < C; c++) columns[c * H + q] = w[q * C + c];
    for (int64_t b = 0; b < B; b++) {
        T* row = hidden + b * H;
        std::copy(bias, bias + H, row);
        for (int64_t c = 0; c < C; c++)
            for (int64_t q = 0; q < H; q++) row[q] += pooled[b * C + c] * columns[c * H + q];
        gelu(H, row, derivative + b * H);
        out[b] = *offset;
        for (int64_t q = 0; q < H; q++) out[b] += row[q] * v[q];
    }
    return N;
}

template <class T>
void readout_grad(int64_t N, int64_t B, int64_t C, int64_t H, const int64_t* owner, const T* w, const T* v,
                  const T* pooled, const T* hidden, const T* derivative, const T* g, T* grad_h, T* grad_w, T* grad_bias,
                  T* grad_v, T* grad_offset) {
    std::fill(grad_w, grad_w + H * C, T(0));
    std::fill(grad_bias, grad_bias + H, T(0));
    std::fill(grad_v, grad_v + H, T(0));
    *grad_offset = 0;
    std::vector<T> back(H), grad_pooled(B * C, T(0));
    for (int64_t b = 0; b < B; b++) {
        *grad_offset += g[b];
        for (int64_t q = 0; q < H; q++) {
            grad_v[q] += g[b] * hidden[b * H + q];
            back[q] = g[b] * v[q] * derivative[b * H + q];
            grad_bias[q] += back[q];
        }
        for (int64_t q = 0; q < H; q++)
            for (int64_t c = 0; c < C; c++) {
                grad_w[q * C + c] += back[q] * pooled[b * C + c];
                grad_pooled[b * C + c] += back[q] * w[q * C + c];
            }
    }
    for (int64_t n = 0; n < N; n++)
        std::copy(grad_pooled.data() + owner[n] * C, grad_pooled.data() + (owner[n] + 1) * C, grad_h + n * C);
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                        \
    int64_t mimogc_readout_##S(int64_t N, int64_t B, int64_t C, int64_t H, const T* h, const int64_t* owner,       \
                               const T* w, const T* bias, const T* v, const T* offset, T* pooled, T* hidden,       \
                               T* derivative, T* out) {                                                            \
        return mimogc::readout<T>(N, B, C, H, h, owner, w, bias, v, offset, pooled, hidden, derivative, out);      \
    }                                                                                                              \
    void mimogc_readout_grad_##S(int64_t N, int64_t B, int64_t C, int64_t H, const int64_t* owner, const T* w,     \
                                 const T* v, const T* pooled, const T* hidden, const T* derivative, const T* g,    \
                                 T* grad_h, T* grad_w, T* grad_bias, T* grad_v, T* grad_offset) {                  \
        mimogc::readout_grad<T>(N, B, C, H, owner, w, v, pooled, hidden, derivative, g, grad_h, grad_w, grad_bias, \
                                grad_v, grad_offset);                                                              \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
