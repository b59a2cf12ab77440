// What comes between layers: activation, residual connection and the maximum over the layers, in one pass; and the
// softmax over the edges into a node.
#include <algorithm>
#include <cmath>

#include "call.h"
#include "gelu.h"
#include "split.h"

namespace mimogc {
namespace {

constexpr int64_t kRowsTogether = 48;  // whose values stay in the first cache

// body(first, last) for all rows, some at a time, on `threads` threads.
template <class Body>
void for_blocks(int64_t rows, int threads, const Body& body) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t first = 0; first < rows; first += kRowsTogether)
        body(first, std::min(first + kRowsTogether, rows));
}

template <class T>
void join(const MimogcSizes& sizes, const MimogcJoin& at, const T* y, T* derivative, T* out, T* top) {
    const int64_t C = sizes.C;
    const T *given = as<T>(at.given), *best = as<T>(at.best), gain = T(at.gain);
    for_blocks(at.rows, threads_for(8 * at.rows * C, sizes.threads), [=, &at](int64_t first, int64_t last) {
        if (out != y) std::copy(y + first * C, y + last * C, out + first * C);
        if (derivative && last > first && C) gelu((last - first) * C, out + first * C, derivative + first * C);
        for (int64_t i = first; i < last && (given || best); i++) {
            const int64_t from = (at.parent ? at.parent[i] : i) * C;
            T* o = out + i * C;
            if (given)
                for (int64_t c = 0; c < C; c++) o[c] = given[from + c] + gain * o[c];
            if (!best) continue;
            uint8_t* chosen = as<uint8_t>(at.chosen) + i * C;
            for (int64_t c = 0; c < C; c++) {
                const T b = best[from + c];
                const bool here = o[c] >= b || o[c] != o[c];  // NaN is larger than all others
                chosen[c] = here;
                top[i * C + c] = here ? o[c] : b;
            }
        }
    });
}

template <class T>
void join_grad(const MimogcSizes& sizes, const MimogcJoin& at, const T* derivative, const T* g_out, const T* g_top,
               T* grad_y, T* grad_given, T* grad_best) {
    const int64_t C = sizes.C;
    const T gain = at.given ? T(at.gain) : T(1);
    for (T* grad : {grad_given, grad_best})
        if (grad && at.parent) std::fill_n(grad, at.before * C, T(0));
    const int threads = at.parent ? 1 : threads_for(8 * at.rows * C, sizes.threads);  // several have one parent
    for_blocks(at.rows, threads, [=, &at](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i++) {
            const int64_t row = i * C, to = (at.parent ? at.parent[i] : i) * C;
            const T *one = g_out ? g_out + row : nullptr, *other = g_top ? g_top + row : nullptr;
            const uint8_t* chosen = at.best ? as<uint8_t>(at.chosen) + row : nullptr;
            T* y = grad_y + row;
            for (int64_t c = 0; c < C; c++) {
                const T share = !other ? T(0) : !chosen || chosen[c] ? other[c] : T(0);
                y[c] = (one ? one[c] : T(0)) + share;
            }
            if (grad_best)
                for (int64_t c = 0; c < C; c++) {
                    const T rest = chosen[c] || !other ? T(0) : other[c];
                    grad_best[to + c] = at.parent ? grad_best[to + c] + rest : rest;
                }
            if (grad_given)
                for (int64_t c = 0; c < C; c++)
                    grad_given[to + c] = at.parent ? grad_given[to + c] + y[c] : y[c];
            if (derivative)
                for (int64_t c = 0; c < C; c++) y[c] *= gain * derivative[row + c];
            else
                for (int64_t c = 0; c < C; c++) y[c] *= gain;
        }
    });
}

// y = exp(y) for n values that are not positive.
inline void exp_all(int64_t n, float* y) {
    constexpr int64_t lanes = Simd<float>::lanes;
    for (int64_t q = 0; q < n; q += lanes) {
        Vec<float> value = {};
        const int64_t count = std::min(lanes, n - q);
        std::memcpy(&value, y + q, sizeof(float) * count);
        value = fast_exp(value);
        std::memcpy(y + q, &value, sizeof(float) * count);
    }
}
inline void exp_all(int64_t n, double* y) {
    for (int64_t q = 0; q < n; q++) y[q] = std::exp(y[q]);
}

template <class T>
void softmax(const MimogcGraph& graph, const MimogcSizes& sizes, const T* scores, T* alpha) {
    const int64_t K = sizes.K;
    for_rows<T>(graph.rowptr, graph.num_dst, 16 * graph.num_edges * K, sizes.threads,
                [&](int64_t i, std::vector<T>& room) {
                    const int64_t begin = graph.rowptr[i] * K, end = graph.rowptr[i + 1] * K;
                    if (begin == end) return;
                    room.assign(2 * K, T(0));
                    T *largest = room.data(), *total = largest + K;
                    std::copy_n(scores + begin, K, largest);
                    for (int64_t q = begin; q < end; q += K)
                        for (int64_t k = 0; k < K; k++) largest[k] = std::max(largest[k], scores[q + k]);
                    for (int64_t q = begin; q < end; q += K)
                        for (int64_t k = 0; k < K; k++) alpha[q + k] = scores[q + k] - largest[k];
                    exp_all(end - begin, alpha + begin);
                    for (int64_t q = begin; q < end; q += K)
                        for (int64_t k = 0; k < K; k++) total[k] += alpha[q + k];
                    for (int64_t q = begin; q < end; q += K)
                        for (int64_t k = 0; k < K; k++) alpha[q + k] /= total[k];
                });
}

template <class T>
void softmax_grad(const MimogcGraph& graph, const MimogcSizes& sizes, const T* alpha, const T* g, T* grad) {
    const int64_t K = sizes.K;
    for_rows<T>(graph.rowptr, graph.num_dst, 4 * graph.num_edges * K, sizes.threads,
                [&](int64_t i, std::vector<T>& total) {
                    const int64_t begin = graph.rowptr[i] * K, end = graph.rowptr[i + 1] * K;
                    total.assign(K, T(0));
                    for (int64_t q = begin; q < end; q += K)
                        for (int64_t k = 0; k < K; k++) total[k] += alpha[q + k] * g[q + k];
                    for (int64_t q = begin; q < end; q += K)
                        for (int64_t k = 0; k < K; k++) grad[q + k] = alpha[q + k] * (g[q + k] - total[k]);
                });
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_softmax(const MimogcGraph* graph, const MimogcSizes* sizes, const void* scores, void* alpha) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        softmax<T>(*graph, *sizes, as<T>(scores), as<T>(alpha));
    });
}

int64_t mimogc_softmax_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const void* alpha, const void* g,
                            void* grad) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        softmax_grad<T>(*graph, *sizes, as<T>(alpha), as<T>(g), as<T>(grad));
    });
}

int64_t mimogc_join(const MimogcSizes* sizes, const MimogcJoin* at, const void* y, void* derivative, void* out,
                    void* top) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        join<T>(*sizes, *at, as<T>(y), as<T>(derivative), as<T>(out), as<T>(top));
    });
}

int64_t mimogc_join_grad(const MimogcSizes* sizes, const MimogcJoin* at, const void* derivative, const void* g_out,
                         const void* g_top, void* grad_y, void* grad_given, void* grad_best) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        join_grad<T>(*sizes, *at, as<T>(derivative), as<T>(g_out), as<T>(g_top), as<T>(grad_y), as<T>(grad_given),
                     as<T>(grad_best));
    });
}
