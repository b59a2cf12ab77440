// Sums over neighbours with given coefficients, and their gradients.
#include <cstring>

#include "mimogc.h"
#include "rows.h"
#include "split.h"

namespace mimogc {
namespace {

template <class T>
struct Gather {
    const int32_t* ptr;
    const int32_t* neighbour;
    const int32_t* edge;
    int64_t rows, K, C;
    int32_t shape;

    int64_t work() const { return int64_t(ptr[rows]) * K * C; }
    Neighbours of(int64_t i) const { return {neighbour + ptr[i], ptr[i + 1] - ptr[i], int64_t(ptr[rows]) - ptr[i]}; }
    // α of the row's edges, side by side: in place, or copied to `buffer` where the order is another.
    const T* alpha(int64_t i, const T* all, T* buffer) const {
        if (!edge) return all + ptr[i] * K;
        for (int64_t e = ptr[i]; e < ptr[i + 1]; e++, buffer += K)
            std::memcpy(buffer, all + edge[e] * K, sizeof(T) * K);
        return buffer - (ptr[i + 1] - ptr[i]) * K;
    }
    // out_i = Σ α h for the shapes with K parts.
    void sum_parts(const Neighbours& nb, const T* a, const T* h, T* out) const {
        if (shape == kSharedToHeads) {
            for_heads(K, [&](auto KB, int64_t k) { sum_shared<T, KB>(nb, C, a + k, K, h, C, out + k * C, C); });
        } else if (C == 1) {  // K graphs of one channel: one product per channel
            for (int64_t k = 0; k < K; k++) out[k] = 0;
            for (int64_t e = 0; e < nb.count; e++)
                for (int64_t k = 0; k < K; k++) out[k] += a[e * K + k] * h[nb.index[e] * K + k];
        } else {
            for (int64_t k = 0; k < K; k++) sum_shared<T, 1>(nb, C, a + k, K, h + k * C, K * C, out + k * C, 0);
        }
    }
    // d[e, k] = ⟨g_e, h_k⟩ with g gathered.
    void dot_parts(const Neighbours& nb, const T* g, const T* h, T* d) const {
        if (shape != kHeadsToHeads) {
            for_heads(K, [&](auto KB, int64_t k) { dot_shared<T, KB>(nb, C, g, C, h + k * C, C, d + k, K); });
        } else if (C == 1) {
            for (int64_t e = 0; e < nb.count; e++)
                for (int64_t k = 0; k < K; k++) d[e * K + k] = g[nb.index[e] * K + k] * h[k];
        } else {
            for (int64_t k = 0; k < K; k++) dot_shared<T, 1>(nb, C, g + k * C, K * C, h + k * C, 0, d + k, K);
        }
    }
    void scatter(int64_t i, const T* d, T* out) const {
        for (int64_t e = ptr[i]; e < ptr[i + 1]; e++, d += K) std::memcpy(out + edge[e] * K, d, sizeof(T) * K);
    }
};

template <class T>
void sum_rows(const Gather<T>& at, const T* alpha, const T* h, T* out, int threads) {
    for_rows<T>(at.ptr, at.rows, at.work(), threads, [&](int64_t i, std::vector<T>& scratch) {
        const Neighbours nb = at.of(i);
        if (at.edge) scratch.resize(nb.count * at.K);
        const T* a = at.alpha(i, alpha, scratch.data());
        if (at.shape == kHeadsToSum)
            sum_heads<T>(nb, at.K, at.C, a, h, out + i * at.C);
        else
            at.sum_parts(nb, a, h, out + i * at.K * at.C);
    });
}

template <class T>
void dot_rows(const Gather<T>& at, const T* g, const T* h, T* out, int threads) {
    for_rows<T>(at.ptr, at.rows, at.work(), threads, [&](int64_t j, std::vector<T>& scratch) {
        const Neighbours nb = at.of(j);
        scratch.resize(nb.count * at.K);
        at.dot_parts(nb, g, h + j * at.K * at.C, scratch.data());
        at.scatter(j, scratch.data(), out);
    });
}

// `at.shape` is that of the gradient: kSharedToHeads where the sum was kHeadsToSum.
template <class T>
void grad_rows(const Gather<T>& at, const T* alpha, const T* g, const T* h, T* grad_h, T* grad_alpha, int threads) {
    for_rows<T>(at.ptr, at.rows, 2 * at.work(), threads, [&](int64_t j, std::vector<T>& scratch) {
        const Neighbours nb = at.of(j);
        scratch.resize(2 * nb.count * at.K);
        const T* a = at.alpha(j, alpha, scratch.data());
        T* d = scratch.data() + nb.count * at.K;
        at.sum_parts(nb, a, g, grad_h + j * at.K * at.C);
        at.dot_parts(nb, g, h + j * at.K * at.C, d);
        at.scatter(j, d, grad_alpha);
    });
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                          \
    void mimogc_sum_##S(int64_t rows, const int32_t* ptr, const int32_t* neighbour, const int32_t* edge, int64_t K,  \
                        int64_t C, int32_t shape, const T* alpha, const T* h, T* out, int32_t threads) {             \
        mimogc::sum_rows<T>(mimogc::Gather<T>{ptr, neighbour, edge, rows, K, C, shape}, alpha, h, out, threads);     \
    }                                                                                                                \
    void mimogc_dot_##S(int64_t num_src, const int32_t* colptr, const int32_t* row, const int32_t* edge, int64_t K,  \
                        int64_t C, int32_t shape, const T* g, const T* h, T* out, int32_t threads) {                 \
        mimogc::dot_rows<T>(mimogc::Gather<T>{colptr, row, edge, num_src, K, C, shape}, g, h, out, threads);         \
    }                                                                                                                \
    void mimogc_sum_grad_##S(int64_t num_src, const int32_t* colptr, const int32_t* row, const int32_t* edge,        \
                             int64_t K, int64_t C, int32_t shape, const T* alpha, const T* g, const T* h, T* grad_h, \
                             T* grad_alpha, int32_t threads) {                                                       \
        const int32_t turned = shape == kHeadsToSum ? kSharedToHeads : shape;                                        \
        mimogc::grad_rows<T>(mimogc::Gather<T>{colptr, row, edge, num_src, K, C, turned}, alpha, g, h, grad_h,       \
                             grad_alpha, threads);                                                                   \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
