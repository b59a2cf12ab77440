// Scores of the paper's coefficients: LeakyReLU(h) vᵀ and its gradients, reading h once and keeping nothing of its
// size.
#include <cstring>

#include "mimogc.h"
#include "simd.h"
#include "split.h"

namespace mimogc {
namespace {

constexpr int kTile = 4;  // score columns at a time: 4 sums, 4 rows of v

template <class T>
inline Vec<T> leaky(Vec<T> x, T slope) {
    return x > T(0) ? x : x * slope;
}
template <class T>
inline T leaky_scalar(T x, T slope) {
    return x > T(0) ? x : x * slope;
}

template <class T>
void scores_row(int64_t width, int64_t M, T slope, const T* h, const T* v, T* out) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t whole = width / lanes * lanes;
    int64_t m = 0;
    for (; m + kTile <= M; m += kTile) {
        Vec<T> acc[kTile] = {};
        for (int64_t q = 0; q < whole; q += lanes) {
            const Vec<T> y = leaky<T>(load(h + q), slope);
#pragma GCC unroll 4
            for (int r = 0; r < kTile; r++) acc[r] += y * load(v + (m + r) * width + q);
        }
        lane_sums<T, kTile>(acc, out + m);
    }
    for (; m < M; m++) {
        Vec<T> acc = {};
        for (int64_t q = 0; q < whole; q += lanes) acc += leaky<T>(load(h + q), slope) * load(v + m * width + q);
        out[m] = lane_sum<T>(acc);
    }
    for (int64_t q = whole; q < width; q++)
        for (m = 0; m < M; m++) out[m] += leaky_scalar(h[q], slope) * v[m * width + q];
}

template <class T>
void scores(int64_t N, int64_t width, int64_t M, T slope, const T* h, const T* v, T* out, int threads) {
    threads = threads_for(N * width, threads);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t n = 0; n < N; n++) scores_row<T>(width, M, slope, h + n * width, v, out + n * M);
}

// Rows begin .. end, columns low .. high, scores m .. M, one by one.
template <class T>
void scores_grad_scalar(int64_t begin, int64_t end, int64_t low, int64_t high, int64_t m, int64_t width, int64_t M,
                        T slope, const T* h, const T* v, const T* g, T* grad_h, T* total) {
    for (int64_t n = begin; n < end; n++) {
        for (int64_t q = low; q < high; q++) {
            const T x = h[n * width + q], slope_here = x > T(0) ? T(1) : slope;
            T back = 0;
            for (int64_t r = m; r < M; r++) {
                back += v[r * width + q] * g[n * M + r];
                total[r * width + q] += x * slope_here * g[n * M + r];
            }
            grad_h[n * width + q] += back * slope_here;
        }
    }
}

// Rows first .. last: grad_h += LeakyReLU'(h) ∘ (g v), total += gᵀ LeakyReLU(h).
template <class T>
void scores_grad_rows(int64_t first, int64_t last, int64_t width, int64_t M, T slope, const T* h, const T* v,
                      const T* g, T* grad_h, T* total) {
    constexpr int lanes = Simd<T>::lanes;
    constexpr int64_t kRows = 8;  // a tile of v and total stays in registers for this many rows
    const int64_t whole = width / lanes * lanes;
    const Vec<T> one = Vec<T>{} + T(1);
    for (int64_t begin = first; begin < last; begin += kRows) {
        const int64_t end = std::min(begin + kRows, last);
        int64_t m = 0;
        for (; m + kTile <= M; m += kTile) {
            for (int64_t q = 0; q < whole; q += lanes) {
                Vec<T> weight[kTile], sum_of[kTile];
#pragma GCC unroll 4
                for (int r = 0; r < kTile; r++) {
                    weight[r] = load(v + (m + r) * width + q);
                    sum_of[r] = load(total + (m + r) * width + q);
                }
                for (int64_t n = begin; n < end; n++) {
                    const T* gn = g + n * M + m;
                    const Vec<T> x = load(h + n * width + q);
                    const Vec<T> slopes = x > T(0) ? one : one * slope;
                    const Vec<T> y = x * slopes;
                    Vec<T> back = {};
#pragma GCC unroll 4
                    for (int r = 0; r < kTile; r++) {
                        back += weight[r] * gn[r];
                        sum_of[r] += y * gn[r];
                    }
                    store(grad_h + n * width + q, load(grad_h + n * width + q) + back * slopes);
                }
#pragma GCC unroll 4
                for (int r = 0; r < kTile; r++) store(total + (m + r) * width + q, sum_of[r]);
            }
        }
        // What whole tiles and whole vectors left over.
        if (m < M) scores_grad_scalar<T>(begin, end, 0, whole, m, width, M, slope, h, v, g, grad_h, total);
        scores_grad_scalar<T>(begin, end, whole, width, 0, width, M, slope, h, v, g, grad_h, total);
    }
}

template <class T>
void scores_grad(int64_t N, int64_t width, int64_t M, T slope, const T* h, const T* v, const T* g, T* grad_h, T* grad_v,
                 int threads) {
    threads = threads_for(N * width, threads);
    const int64_t size = M * width;
    std::vector<T> totals(size * (threads - 1), T(0));  // the first thread adds up in grad_v itself
    std::fill(grad_v, grad_v + size, T(0));
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        T* total = part == 0 ? grad_v : totals.data() + (part - 1) * size;
        scores_grad_rows<T>(N * part / threads, N * (part + 1) / threads, width, M, slope, h, v, g, grad_h, total);
    }
    for (int part = 1; part < threads; part++)
        for (int64_t q = 0; q < size; q++) grad_v[q] += totals[(part - 1) * size + q];
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                       \
    void mimogc_scores_##S(int64_t N, int64_t width, int64_t M, T slope, const T* h, const T* v, T* out,          \
                           int32_t threads) {                                                                     \
        mimogc::scores<T>(N, width, M, slope, h, v, out, threads);                                                \
    }                                                                                                             \
    void mimogc_scores_grad_##S(int64_t N, int64_t width, int64_t M, T slope, const T* h, const T* v, const T* g, \
                                T* grad_h, T* grad_v, int32_t threads) {                                          \
        mimogc::scores_grad<T>(N, width, M, slope, h, v, g, grad_h, grad_v, threads);                             \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
