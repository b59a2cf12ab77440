// Scores of the paper's coefficients: LeakyReLU(h) vᵀ and its gradients for a few rows of h, which stay in the caches.
//
// Channels go in whole vectors, of which the last one may overlap the one before; fewer than a vector go one by one.
#pragma once
#include "rows.h"
#include "simd.h"

namespace mimogc {

// 1 where x is positive, the slope elsewhere: with operations on whole numbers, which leave those for products free.
template <class T>
inline Vec<T> leaky_slope(Vec<T> x, T slope) {
    typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> Whole;
    typedef Whole Bits __attribute__((vector_size(kVectorBytes)));
    const Bits one = (Bits)(Vec<T>{} + T(1)), other = (Bits)(Vec<T>{} + slope);
    return (Vec<T>)(other ^ (((Bits)x > 0) & (one ^ other)));
}
template <class T>
inline T leaky_slope(T x, T slope) {
    return x > T(0) ? T(1) : slope;
}

// The lanes of the vector that ends at `width` which no whole vector before has; all others are not to be counted
// again.
template <class T>
inline auto fresh_lanes(int64_t width) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> lane;
    for (int i = 0; i < lanes; i++) lane[i] = T(i);
    return lane >= T(lanes - width % lanes);
}

// Scores of a tile: as many as fill the registers with two rows.
constexpr int kScores = kAccumulators / 2;

// body(S, m) for all M scores in tiles of at most kScores.
template <class Body>
inline void for_scores(int64_t M, const Body& body) {
    int64_t m = 0;
    if constexpr (kScores > 4)
        for (; m + kScores <= M; m += kScores) body(std::integral_constant<int, kScores>{}, m);
    for_heads(M - m, [&](auto S, int64_t k) { body(S, m + k); });
}

// out[r, s] = Σ_q LeakyReLU(h[r, q]) v[s, q] for R rows and S scores.
template <class T, int R, int S>
inline void scores_tile(int64_t width, int64_t M, T slope, const T* h, const T* v, T* out) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t whole = width / lanes * lanes;
    Vec<T> sum[R][S] = {};
    const auto add = [&](int64_t q, auto part) {
        Vec<T> y[R];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const Vec<T> x = part(load(h + r * width + q));
            y[r] = x * leaky_slope<T>(x, slope);
        }
#pragma GCC unroll 8
        for (int s = 0; s < S; s++) {
            const Vec<T> w = part(load(v + s * width + q));
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) sum[r][s] += y[r] * w;
        }
    };
    for (int64_t q = 0; q < whole; q += lanes) add(q, [](Vec<T> all) { return all; });
    if (whole && whole < width) {
        const auto fresh = fresh_lanes<T>(width);
        add(width - lanes, [&](Vec<T> all) { return fresh ? all : Vec<T>{}; });
    }
    for (int r = 0; r < R; r++) {
        lane_sums<T, S>(sum[r], out + r * M);
        for (int64_t q = 0; q < width && !whole; q++) {
            const T x = h[r * width + q], y = x * leaky_slope(x, slope);
            for (int s = 0; s < S; s++) out[r * M + s] += y * v[s * width + q];
        }
    }
}

// out [rows, M] from h [rows, width] and v [M, width].
template <class T>
inline void scores_rows(int64_t rows, int64_t width, int64_t M, T slope, const T* h, const T* v, T* out) {
    for_scores(M, [&](auto S, int64_t m) {
        int64_t n = 0;
        for (; n + 2 <= rows; n += 2)
            scores_tile<T, 2, S>(width, M, slope, h + n * width, v + m * width, out + n * M + m);
        if (n < rows) scores_tile<T, 1, S>(width, M, slope, h + n * width, v + m * width, out + n * M + m);
    });
}

// total[s, q ...] += Σ_n g[n, s] LeakyReLU(h[n, q ...]) for S scores and B vectors, where `part` says which lanes.
template <class T, int S, int B, class Part>
inline void scores_grad_total(int64_t rows, int64_t width, int64_t M, T slope, const T* h, const T* g, T* total,
                              const Part& part) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> sum[S][B] = {};
    for (int64_t n = 0; n < rows; n++) {
        Vec<T> y[B];
#pragma GCC unroll 2
        for (int b = 0; b < B; b++) {
            const Vec<T> x = load(h + n * width + b * lanes);
            y[b] = x * leaky_slope<T>(x, slope);
        }
#pragma GCC unroll 8
        for (int s = 0; s < S; s++)
#pragma GCC unroll 2
            for (int b = 0; b < B; b++) sum[s][b] += y[b] * g[n * M + s];
    }
    for (int s = 0; s < S; s++)
        for (int b = 0; b < B; b++) {
            T* place = total + s * width + b * lanes;
            store(place, part(load(place) + sum[s][b], load(place)));
        }
}

// grad_h[r, q ...] += LeakyReLU'(h[r, q ...]) ∘ Σ_m g[r, m] v[m, q ...] for R rows and B vectors, in the same way.
template <class T, int R, int B, class Part>
inline void scores_grad_back(int64_t width, int64_t M, T slope, const T* h, const T* v, const T* g, T* grad_h,
                             const Part& part) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> back[R][B] = {};
    for (int64_t m = 0; m < M; m++) {
#pragma GCC unroll 2
        for (int b = 0; b < B; b++) {
            const Vec<T> w = load(v + m * width + b * lanes);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) back[r][b] += w * g[r * M + m];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int b = 0; b < B; b++) {
            const int64_t at = r * width + b * lanes;
            const Vec<T> before = load(grad_h + at);
            store(grad_h + at, part(before + back[r][b] * leaky_slope<T>(load(h + at), slope), before));
        }
}

// B vectors of all rows and scores.
template <class T, int B, class Part>
inline void scores_grad_vectors(int64_t rows, int64_t width, int64_t M, T slope, const T* h, const T* v, const T* g,
                                T* grad_h, T* total, const Part& part) {
    for_scores(M, [&](auto S, int64_t m) {
        scores_grad_total<T, S, B>(rows, width, M, slope, h, g + m, total + m * width, part);
    });
    for_heads(rows, [&](auto R, int64_t n) {
        scores_grad_back<T, R, B>(width, M, slope, h + n * width, v, g + n * M, grad_h + n * width, part);
    });
}

// Gradients from g [rows, M]: grad_h += LeakyReLU'(h) ∘ (g v), total += gᵀ LeakyReLU(h).
template <class T>
inline void scores_grad_rows(int64_t rows, int64_t width, int64_t M, T slope, const T* h, const T* v, const T* g,
                             T* grad_h, T* total) {
    constexpr int lanes = Simd<T>::lanes;
    const auto all = [](Vec<T> after, Vec<T>) { return after; };
    int64_t q = 0;
    for (; q + 2 * lanes <= width; q += 2 * lanes)
        scores_grad_vectors<T, 2>(rows, width, M, slope, h + q, v + q, g, grad_h + q, total + q, all);
    if (q + lanes <= width) {
        scores_grad_vectors<T, 1>(rows, width, M, slope, h + q, v + q, g, grad_h + q, total + q, all);
        q += lanes;
    }
    if (q && q < width) {  // the last vector begins in one that is done
        const auto fresh = fresh_lanes<T>(width);
        const int64_t at = width - lanes;
        scores_grad_vectors<T, 1>(rows, width, M, slope, h + at, v + at, g, grad_h + at, total + at,
                                  [&](Vec<T> after, Vec<T> before) { return fresh ? after : before; });
        return;
    }
    for (; q < width; q++)
        for (int64_t n = 0; n < rows; n++) {
            const T x = h[n * width + q], here = leaky_slope(x, slope);
            T back = 0;
            for (int64_t m = 0; m < M; m++) {
                back += v[m * width + q] * g[n * M + m];
                total[m * width + q] += x * here * g[n * M + m];
            }
            grad_h[n * width + q] += back * here;
        }
}

}  // namespace mimogc
