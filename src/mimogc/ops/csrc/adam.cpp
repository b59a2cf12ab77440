// A step of Adam with clipped gradients on many tensors at once.
#include <algorithm>
#include <cmath>

#include "mimogc.h"
#include "split.h"

namespace mimogc {
namespace {

constexpr int64_t kChunk = 4096;  // values that one thread takes at once

// Some values of a tensor; all weights, means and squares are one vector each, and `at` is where theirs begin.
template <class T>
struct Chunk {
    const T* gradient;  // null where it is zero
    int64_t at, size;
};

template <class T>
double square_sum(const Chunk<T>& chunk) {
    constexpr int lanes = 16;
    T sum[lanes] = {};
    int64_t q = 0;
    for (; q + lanes <= chunk.size; q += lanes)
        for (int i = 0; i < lanes; i++) sum[i] += chunk.gradient[q + i] * chunk.gradient[q + i];
    double total = 0;
    for (; q < chunk.size; q++) total += double(chunk.gradient[q]) * chunk.gradient[q];
    for (int i = 0; i < lanes; i++) total += sum[i];
    return total;
}

template <class T>
void adam(int64_t count, const int64_t* sizes, const T* const* gradients, double clip, double lr, double beta1,
          double beta2, double eps, int64_t step, T* weight, T* mean, T* square, int threads) {
    std::vector<Chunk<T>> chunks;
    int64_t at = 0;
    for (int64_t n = 0; n < count; n++)
        for (int64_t q = 0; q < sizes[n]; q += kChunk) {
            const int64_t size = std::min(kChunk, sizes[n] - q);
            chunks.push_back({gradients[n] ? gradients[n] + q : nullptr, at, size});
            at += size;
        }
    const int64_t parts = int64_t(chunks.size());
    std::vector<double> norms(parts);
    const T rate = T(lr / (1 - std::pow(beta1, double(step)))), keep1 = T(beta1), keep2 = T(beta2), small = T(eps);
    const T new1 = T(1 - beta1), new2 = T(1 - beta2), correction = T(1 / std::sqrt(1 - std::pow(beta2, double(step))));
    threads = threads_for(8 * at, threads);
    in_team(threads, [&] {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < parts; p++) norms[p] = chunks[p].gradient ? square_sum<T>(chunks[p]) : 0;
        double total = 0;
        for (double norm : norms) total += norm;
        const double ratio = clip / (std::sqrt(total) + 1e-6);
        const T scale = T(ratio > 1 ? 1 : ratio);  // NaN stays NaN
#pragma omp for schedule(static)
        for (int64_t p = 0; p < parts; p++) {
            const Chunk<T> own = chunks[p];
            T *w = weight + own.at, *m = mean + own.at, *v = square + own.at;
            const auto update = [&](int64_t q, T g) {
                m[q] = keep1 * m[q] + new1 * g;
                v[q] = keep2 * v[q] + new2 * g * g;
                w[q] -= rate * m[q] / (std::sqrt(v[q]) * correction + small);
            };
            if (own.gradient)
#pragma omp simd
                for (int64_t q = 0; q < own.size; q++) update(q, scale * own.gradient[q]);
            else
#pragma omp simd
                for (int64_t q = 0; q < own.size; q++) update(q, T(0));
        }
    });
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                                         \
    void mimogc_adam_##S(int64_t count, const int64_t* sizes, const T* const* gradients, double clip, double lr,    \
                         double beta1, double beta2, double eps, int64_t step, T* weight, T* mean, T* square,       \
                         int32_t threads) {                                                                         \
        mimogc::adam<T>(count, sizes, gradients, clip, lr, beta1, beta2, eps, step, weight, mean, square, threads); \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
