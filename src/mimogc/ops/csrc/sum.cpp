// Sums over neighbours with given coefficients, and their gradients.
#include <cstring>

#include "call.h"
#include "pages.h"
#include "rows.h"
#include "split.h"

namespace mimogc {
namespace {

// The rows of a graph: its targets, or with `transposed` its sources.
template <class T>
struct Gather {
    const int32_t* ptr;
    const int32_t* neighbour;
    const int32_t* slot;  // null where the edges are in their own order
    int64_t rows, others, K, C;
    int32_t shape;
    int threads;

    Gather(const MimogcGraph& graph, const MimogcSizes& sizes, bool transposed)
        : ptr(transposed ? graph.colptr : graph.rowptr),
          neighbour(transposed ? graph.targets : graph.sources),
          slot(transposed ? graph.slot : nullptr),
          rows(transposed ? graph.num_src : graph.num_dst),
          others(transposed ? graph.num_dst : graph.num_src),
          K(sizes.K),
          C(sizes.C),
          shape(sizes.shape),
          threads(sizes.threads) {}

    // The rows that are gathered, `width` numbers each.
    Gathered<T> gathered(const T* values, int64_t width) const {
        return {values, others * width, others, int64_t(ptr[rows]), threads_for(work(), threads)};
    }
    int64_t work() const { return int64_t(ptr[rows]) * K * C; }
    Neighbours of(int64_t i) const { return {neighbour + ptr[i], ptr[i + 1] - ptr[i], int64_t(ptr[rows]) - ptr[i]}; }
    // α of the row's edges, side by side: in place, or copied to `buffer` where the order is another.
    const T* alpha(int64_t i, const T* all, T* buffer) const {
        if (!slot) return all + ptr[i] * K;
        for (int64_t e = ptr[i]; e < ptr[i + 1]; e++, buffer += K)
            std::memcpy(buffer, all + slot[e] * K, sizeof(T) * K);
        return buffer - (ptr[i + 1] - ptr[i]) * K;
    }
    // out_i = Σ α h for the shapes with K parts.
    void sum_parts(const Neighbours& nb, const T* a, const T* h, T* out) const {
        if (shape == MIMOGC_SHARED_TO_HEADS) {
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
        if (shape != MIMOGC_HEADS_TO_HEADS) {
            for_heads(K, [&](auto KB, int64_t k) { dot_shared<T, KB>(nb, C, g, C, h + k * C, C, d + k, K); });
        } else if (C == 1) {
            for (int64_t e = 0; e < nb.count; e++)
                for (int64_t k = 0; k < K; k++) d[e * K + k] = g[nb.index[e] * K + k] * h[k];
        } else {
            for (int64_t k = 0; k < K; k++) dot_shared<T, 1>(nb, C, g + k * C, K * C, h + k * C, 0, d + k, K);
        }
    }
    void scatter(int64_t i, const T* d, T* out) const {
        for (int64_t e = ptr[i]; e < ptr[i + 1]; e++, d += K) std::memcpy(out + slot[e] * K, d, sizeof(T) * K);
    }
};

template <class T>
void sum_rows(const Gather<T>& at, const T* alpha, const T* given, T* out) {
    const Gathered<T> gathered = at.gathered(given, at.shape == MIMOGC_SHARED_TO_HEADS ? at.C : at.K * at.C);
    const T* h = gathered.rows();
    for_rows<T>(at.ptr, at.rows, at.work(), at.threads, [&](int64_t i, std::vector<T>& scratch) {
        const Neighbours nb = at.of(i);
        if (at.slot) scratch.resize(nb.count * at.K);
        const T* a = at.alpha(i, alpha, scratch.data());
        if (at.shape == MIMOGC_HEADS_TO_SUM)
            sum_heads<T>(nb, at.K, at.C, a, h, out + i * at.C);
        else
            at.sum_parts(nb, a, h, out + i * at.K * at.C);
    });
}

template <class T>
void dot_rows(const Gather<T>& at, const T* g, const T* h, T* out) {
    for_rows<T>(at.ptr, at.rows, at.work(), at.threads, [&](int64_t j, std::vector<T>& scratch) {
        const Neighbours nb = at.of(j);
        scratch.resize(nb.count * at.K);
        at.dot_parts(nb, g, h + j * at.K * at.C, scratch.data());
        at.scatter(j, scratch.data(), out);
    });
}

template <class T>
void grad_rows(Gather<T> at, const T* alpha, const T* h, const T* given, T* grad_alpha, T* grad_h) {
    if (at.shape == MIMOGC_HEADS_TO_SUM) at.shape = MIMOGC_SHARED_TO_HEADS;  // that of the gradient
    const Gathered<T> gathered = at.gathered(given, at.shape == MIMOGC_SHARED_TO_HEADS ? at.C : at.K * at.C);
    const T* g = gathered.rows();
    for_rows<T>(at.ptr, at.rows, 2 * at.work(), at.threads, [&](int64_t j, std::vector<T>& scratch) {
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

using namespace mimogc;

int64_t mimogc_sum(const MimogcGraph* graph, const MimogcSizes* sizes, int32_t transposed, const void* alpha,
                   const void* h, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        sum_rows<T>({*graph, *sizes, transposed != 0}, as<T>(alpha), as<T>(h), as<T>(out));
    });
}

int64_t mimogc_dot(const MimogcGraph* graph, const MimogcSizes* sizes, const void* g, const void* h, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        dot_rows<T>({*graph, *sizes, true}, as<T>(g), as<T>(h), as<T>(out));
    });
}

int64_t mimogc_sum_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const void* alpha, const void* h,
                        const void* g, void* grad_alpha, void* grad_h) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        grad_rows<T>({*graph, *sizes, true}, as<T>(alpha), as<T>(h), as<T>(g), as<T>(grad_alpha), as<T>(grad_h));
    });
}
