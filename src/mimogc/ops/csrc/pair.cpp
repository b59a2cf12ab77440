// Scores of pairs that do not separate, att_k · LeakyReLU(source_k(j) + target_k(i)) (GATv2): nothing of the size E·K·C
// is stored.
#include "call.h"
#include "simd.h"
#include "split.h"

namespace mimogc {
namespace {

// Σ_c a[c] LeakyReLU(p[c] + q[c])
template <class T>
T pair_score(int64_t C, T slope, const T* p, const T* q, const T* a) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> acc = {};
    int64_t c = 0;
    for (; c + lanes <= C; c += lanes) {
        const Vec<T> z = load(p + c) + load(q + c);
        acc += load(a + c) * (z > T(0) ? z : z * slope);
    }
    T total = lane_sum<T>(acc);
    for (; c < C; c++) {
        const T z = p[c] + q[c];
        total += a[c] * (z > T(0) ? z : z * slope);
    }
    return total;
}

// own[c] += g a[c] LeakyReLU'(z) and, where wanted, grad_a[c] += g LeakyReLU(z), with z = p + q.
template <class T, bool kWithA>
void pair_score_grad(int64_t C, T slope, T g, const T* p, const T* q, const T* a, T* own, T* grad_a) {
    constexpr int lanes = Simd<T>::lanes;
    const Vec<T> one = Vec<T>{} + T(1);
    int64_t c = 0;
    for (; c + lanes <= C; c += lanes) {
        const Vec<T> z = load(p + c) + load(q + c);
        const Vec<T> step = (z > T(0) ? one : one * slope) * g;
        store(own + c, load(own + c) + load(a + c) * step);
        if (kWithA) store(grad_a + c, load(grad_a + c) + z * step);
    }
    for (; c < C; c++) {
        const T z = p[c] + q[c], step = (z > T(0) ? T(1) : slope) * g;
        own[c] += a[c] * step;
        if (kWithA) grad_a[c] += z * step;
    }
}

template <class T>
void pair_scores(const MimogcGraph& graph, const MimogcSizes& sizes, const T* source, const T* target, const T* att,
                 T* out) {
    const int64_t K = sizes.K, C = sizes.C, work = graph.num_edges * K * C;
    for_rows<T>(graph.rowptr, graph.num_dst, work, sizes.threads, [&](int64_t i, std::vector<T>&) {
        for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++)
            for (int64_t k = 0; k < K; k++)
                out[e * K + k] = pair_score<T>(C, T(sizes.slope), source + (graph.sources[e] * K + k) * C,
                                               target + (i * K + k) * C, att + k * C);
    });
}

// By target: grad_target, and grad_att row by row. A sum over all edges loses digits, so the rows are added in double;
// each thread adds up a part of its own, and the parts are added in order.
template <class T>
void by_target(const MimogcGraph& graph, const MimogcSizes& sizes, const T* source, const T* target, const T* att,
               const T* g, T* grad_target, T* grad_att) {
    const int64_t K = sizes.K, C = sizes.C, width = K * C;
    const int parts = threads_for(graph.num_edges * width, sizes.threads);
    std::vector<double> totals(parts * width, 0.0);
    std::vector<T> rows(parts * width);
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int part = 0; part < parts; part++) {
        double* total = totals.data() + part * width;
        T* of_row = rows.data() + part * width;
        const int64_t last = first_row(graph.rowptr, graph.num_dst, part + 1, parts);
        for (int64_t i = first_row(graph.rowptr, graph.num_dst, part, parts); i < last; i++) {
            T* own = grad_target + i * width;
            std::fill_n(own, width, T(0));
            std::fill_n(of_row, width, T(0));
            for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++)
                for (int64_t k = 0; k < K; k++)
                    pair_score_grad<T, true>(C, T(sizes.slope), g[e * K + k], source + (graph.sources[e] * K + k) * C,
                                             target + (i * K + k) * C, att + k * C, own + k * C, of_row + k * C);
            for (int64_t c = 0; c < width; c++) total[c] += of_row[c];
        }
    }
    for (int64_t c = 0; c < width; c++) {
        double total = 0;
        for (int part = 0; part < parts; part++) total += totals[part * width + c];
        grad_att[c] = T(total);
    }
}

template <class T>
void by_source(const MimogcGraph& graph, const MimogcSizes& sizes, const T* source, const T* target, const T* att,
               const T* g, T* grad_source) {
    const int64_t K = sizes.K, C = sizes.C, width = K * C, work = graph.num_edges * width;
    for_rows<T>(graph.colptr, graph.num_src, work, sizes.threads, [&](int64_t j, std::vector<T>&) {
        T* own = grad_source + j * width;
        std::fill_n(own, width, T(0));
        for (int64_t e = graph.colptr[j]; e < graph.colptr[j + 1]; e++)
            for (int64_t k = 0; k < K; k++)
                pair_score_grad<T, false>(C, T(sizes.slope), g[graph.slot[e] * K + k], source + (j * K + k) * C,
                                          target + (graph.targets[e] * K + k) * C, att + k * C, own + k * C, nullptr);
    });
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_pair_scores(const MimogcGraph* graph, const MimogcSizes* sizes, const void* source, const void* target,
                           const void* att, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        pair_scores<T>(*graph, *sizes, as<T>(source), as<T>(target), as<T>(att), as<T>(out));
    });
}

int64_t mimogc_pair_scores_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const void* source,
                                const void* target, const void* att, const void* g, void* grad_source,
                                void* grad_target, void* grad_att) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        const T *own = as<T>(source), *other = as<T>(target), *weight = as<T>(att), *back = as<T>(g);
        by_target<T>(*graph, *sizes, own, other, weight, back, as<T>(grad_target), as<T>(grad_att));
        by_source<T>(*graph, *sizes, own, other, weight, back, as<T>(grad_source));
    });
}
