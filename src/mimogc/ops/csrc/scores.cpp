// Scores of the paper's coefficients from h, for callers that need nothing else of the layer.
#include "scores.h"

#include "mimogc.h"
#include "split.h"

namespace mimogc {
namespace {

template <class T>
void scores(int64_t N, int64_t width, int64_t M, T slope, const T* h, const T* v, T* out, int threads) {
    constexpr int64_t kBlock = 48;
    threads = threads_for(N * width, threads);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t n = 0; n < N; n += kBlock)
        scores_rows<T>(std::min(kBlock, N - n), width, M, slope, h + n * width, v, out + n * M);
}

}  // namespace
}  // namespace mimogc

#define MIMOGC_DEFINE(T, S)                                                                              \
    void mimogc_scores_##S(int64_t N, int64_t width, int64_t M, T slope, const T* h, const T* v, T* out, \
                           int32_t threads) {                                                            \
        mimogc::scores<T>(N, width, M, slope, h, v, out, threads);                                       \
    }
MIMOGC_DEFINE(float, f32)
MIMOGC_DEFINE(double, f64)
