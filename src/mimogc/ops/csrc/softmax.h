// The softmax over the edges into one node, K graphs side by side, and its gradient.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "gelu.h"

namespace mimogc {

// y = exp(y) for n values that are not positive, where y has room for whole vectors.
inline void exp_all(int64_t n, float* y) {
    for (int64_t q = 0; q < n; q += Simd<float>::lanes) store(y + q, fast_exp(load(y + q)));
}
inline void exp_all(int64_t n, double* y) {
    for (int64_t q = 0; q < n; q++) y[q] = std::exp(y[q]);
}

// Calls body with the number of graphs and room for two numbers of each. Where K is the usual one it is a compile-time
// number, and the room is on the stack, so that both can be registers.
template <class T, class Body>
inline void with_heads(int64_t K, std::vector<T>& room, const Body& body) {
    if (K == 4) {
        T first[4], second[4];
        return body(std::integral_constant<int64_t, 4>{}, first, second);
    }
    if (int64_t(room.size()) < 2 * K) room.resize(2 * K);
    body(K, room.data(), room.data() + K);
}

// alpha = softmax of the scores [count, K] over the edges, which may lie where alpha does.
template <class T>
inline void softmax_row(int64_t heads, int64_t count, const T* scores, T* alpha, std::vector<T>& room) {
    if (!count) return;
    const int64_t end = count * heads;
    room.resize(2 * heads + end + Simd<T>::lanes);
    T* y = room.data() + 2 * heads;
    std::fill_n(y + end, Simd<T>::lanes, T(0));
    with_heads<T>(heads, room, [&](auto K, T* largest, T* total) {
        for (int64_t k = 0; k < K; k++) largest[k] = scores[k];
        for (int64_t q = K; q < end; q += K)
            for (int64_t k = 0; k < K; k++) largest[k] = std::max(largest[k], scores[q + k]);
        for (int64_t q = 0; q < end; q += K)
            for (int64_t k = 0; k < K; k++) y[q + k] = scores[q + k] - largest[k];
        exp_all(end, y);
        for (int64_t k = 0; k < K; k++) total[k] = 0;
        for (int64_t q = 0; q < end; q += K)
            for (int64_t k = 0; k < K; k++) total[k] += y[q + k];
        for (int64_t k = 0; k < K; k++) total[k] = T(1) / total[k];
        for (int64_t q = 0; q < end; q += K)
            for (int64_t k = 0; k < K; k++) alpha[q + k] = y[q + k] * total[k];
    });
}

// The gradient to the scores from α and g, which may lie where it does.
template <class T>
inline void softmax_row_grad(int64_t heads, int64_t count, const T* alpha, const T* g, T* grad, std::vector<T>& room) {
    with_heads<T>(heads, room, [&](auto K, T* total, T*) {
        const int64_t end = count * K;
        for (int64_t k = 0; k < K; k++) total[k] = 0;
        for (int64_t q = 0; q < end; q += K)
            for (int64_t k = 0; k < K; k++) total[k] += alpha[q + k] * g[q + k];
        for (int64_t q = 0; q < end; q += K)
            for (int64_t k = 0; k < K; k++) grad[q + k] = alpha[q + k] * (g[q + k] - total[k]);
    });
}

}  // namespace mimogc
