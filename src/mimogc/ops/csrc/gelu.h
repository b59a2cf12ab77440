// GELU and its derivative: a vector at a time for float, with the library's erfc and exp for double.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace mimogc {

// exp(x) for x ≤ 0: 2ⁿ times a polynomial on |r| ≤ ln(2) / 2; zero from -80 down, where products with it would be
// denormal, which is slow. NaN stays NaN.
inline Vec<float> fast_exp(Vec<float> x) {
    typedef int32_t Whole __attribute__((vector_size(kVectorBytes)));
    constexpr float kSmallest = -80.0f, kRound = 12582912.0f;  // adding and taking away 1.5 · 2²³ rounds
    const auto none = x < kSmallest;
    x = none ? Vec<float>{} : x;
    const Vec<float> n = (x * 1.44269504f + kRound) - kRound;
    const Vec<float> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln(2) in two parts
    Vec<float> p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const Whole bits = (__builtin_convertvector(n, Whole) + 127) << 23;
    Vec<float> power;
    std::memcpy(&power, &bits, sizeof power);
    return none ? Vec<float>{} : p * power;
}

// y = GELU(y) = y Φ(y), and its derivative Φ(y) + y φ(y), with the normal distribution Φ and its density φ. Φ is
// Abramowitz and Stegun's formula 7.1.26, right to 8e-8, which needs the same exponential as φ.
inline void gelu(Vec<float>& y, Vec<float>& derivative) {
    const Vec<float> e = fast_exp(y * y * -0.5f);
    const Vec<float> t = 1.0f / (1.0f + 0.2316418850f * (y < 0.0f ? -y : y));
    Vec<float> p = t * 0.5307027145f - 0.7265760135f;
    p = p * t + 0.7107068705f;
    p = p * t - 0.1422483680f;
    p = p * t + 0.1274147960f;
    const Vec<float> tail = p * t * e;
    const Vec<float> distribution = y < 0.0f ? tail : 1.0f - tail;
    derivative = distribution + y * e * 0.3989422804f;
    y *= distribution;
}

inline void gelu(int64_t n, float* y, float* derivative) {
    constexpr int64_t lanes = Simd<float>::lanes;
    Vec<float> value, slope, last = {}, last_slope;
    // The last values, which may fill no vector, come first: they overlap others, which have to be as they were.
    const int64_t rest = n < lanes ? n : lanes;
    std::memcpy(&last, y + n - rest, sizeof(float) * rest);
    gelu(last, last_slope);
    for (int64_t c = 0; c + lanes <= n; c += lanes) {
        value = load(y + c);
        gelu(value, slope);
        store(y + c, value);
        store(derivative + c, slope);
    }
    std::memcpy(y + n - rest, &last, sizeof(float) * rest);
    std::memcpy(derivative + n - rest, &last_slope, sizeof(float) * rest);
}

inline void gelu(int64_t n, double* y, double* derivative) {
    for (int64_t c = 0; c < n; c++) {
        const double distribution = 0.5 * std::erfc(-y[c] * 0.70710678118654752440);
        derivative[c] = distribution + y[c] * 0.39894228040143267794 * std::exp(-0.5 * y[c] * y[c]);
        y[c] *= distribution;
    }
}

}  // namespace mimogc
