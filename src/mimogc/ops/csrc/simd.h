// Vectors of one register and the few operations the kernels need: load, store, horizontal sums, tanh.
#pragma once
#include <cmath>
#include <cstdint>
#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace mimogc {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kAccumulators = 16;  // of the 32 registers; the rest hold operands
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
constexpr int kAccumulators = 8;  // of the 16 registers
#else
constexpr int kVectorBytes = 16;
constexpr int kAccumulators = 8;
#endif

template <class T>
struct Simd {
    static constexpr int lanes = kVectorBytes / sizeof(T);
    typedef T Vec __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};
template <class T>
using Vec = typename Simd<T>::Vec;

template <class T>
inline Vec<T> load(const T* p) {
    return *reinterpret_cast<const Vec<T>*>(p);
}
template <class T>
inline void store(T* p, Vec<T> x) {
    *reinterpret_cast<Vec<T>*>(p) = x;
}

template <class T>
inline T lane_sum(Vec<T> x) {
    T total = 0;
    for (int i = 0; i < Simd<T>::lanes; i++) total += x[i];
    return total;
}

// out[k] = the sum of the lanes of x[k].
template <class T, int n>
inline void lane_sums(const Vec<T> (&x)[n], T* out) {
#if defined(__AVX__)
    if constexpr (sizeof(T) == 4 && n % 4 == 0) {
        for (int first = 0; first < n; first += 4) {
            __m256 y[4];
            for (int k = 0; k < 4; k++) {
#if defined(__AVX512F__)
                const __m512 z = (__m512)x[first + k];
                y[k] = _mm256_add_ps(_mm512_castps512_ps256(z), _mm512_extractf32x8_ps(z, 1));
#else
                y[k] = (__m256)x[first + k];
#endif
            }
            const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(y[0], y[1]), _mm256_hadd_ps(y[2], y[3]));
            _mm_storeu_ps(out + first, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
        }
        return;
    }
#endif
    for (int k = 0; k < n; k++) out[k] = lane_sum<T>(x[k]);
}

// tanh(x) = x P(x²) / Q(x²), our own minimax fit on |x| ≤ 9, where float tanh is 1; relative error 3e-7.
// NaN stays NaN: every comparison with it is false.
inline float fast_tanh(float x) {
    constexpr float kSaturated = 9.01f;
    x = x > kSaturated ? kSaturated : x;
    x = x < -kSaturated ? -kSaturated : x;
    const float z = x * x;
    float p = 1.333682302136316e-08f;
    p = p * z + 2.0596253358886345e-05f;
    p = p * z + 3.4948096816898168e-03f;
    p = p * z + 1.3380370395756758e-01f;
    p = p * z + 1.0f;
    float q = 7.769272034274558e-07f;
    q = q * z + 3.284361076933889e-04f;
    q = q * z + 2.5874021400423695e-02f;
    q = q * z + 4.671368581092204e-01f;
    q = q * z + 1.0f;
    float y = x * p / q;
    y = y > 1.0f ? 1.0f : y;
    return y < -1.0f ? -1.0f : y;
}
inline double fast_tanh(double x) { return std::tanh(x); }

}  // namespace mimogc
