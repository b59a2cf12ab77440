// What comes between layers: activation, residual connection and the maximum over the layers, in one pass; and the
// softmax over the edges into a node.
#include <algorithm>

#include "call.h"
#include "gelu.h"
#include "softmax.h"
#include "split.h"

namespace mimogc {
namespace {

constexpr int64_t kRowsTogether = 48;  // whose values stay in the first cache

// body(first, last) for all rows, some at a time, on `threads` threads.
template <class Body>
void for_blocks(int64_t rows, int threads, const Body& body) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t first = 0; first < rows; first += kRowsTogether) body(first, std::min(first + kRowsTogether, rows));
}

// out = given + gain · out for n numbers.
template <class T>
void add_given(int64_t n, const T* __restrict__ given, T gain, T* __restrict__ out) {
    for (int64_t c = 0; c < n; c++) out[c] = given[c] + gain * out[c];
}

// The larger of out and best, and which it is; NaN is larger than all others.
template <class T>
void choose(int64_t n, const T* __restrict__ out, const T* __restrict__ best, T* __restrict__ top,
            uint8_t* __restrict__ chosen) {
    for (int64_t c = 0; c < n; c++) {
        const bool here = (out[c] >= best[c]) | (out[c] != out[c]);
        chosen[c] = here;
        top[c] = here ? out[c] : best[c];
    }
}

// body(begin, from, n) for the n numbers from `begin` on of rows first .. last, which belong to those from `from` on:
// row by row where these have parents, else all at once.
template <class Body>
void for_spans(const MimogcJoin& at, int64_t C, int64_t first, int64_t last, const Body& body) {
    if (!at.parent) return body(first * C, first * C, (last - first) * C);
    for (int64_t i = first; i < last; i++) body(i * C, at.parent[i] * C, C);
}

template <class T>
void join(const MimogcSizes& sizes, const MimogcJoin& at, const T* y, T* derivative, T* out, T* top) {
    const int64_t C = sizes.C;
    const T *given = as<T>(at.given), *best = as<T>(at.best), gain = T(at.gain);
    uint8_t* chosen = as<uint8_t>(at.chosen);
    for_blocks(at.rows, threads_for(8 * at.rows * C, sizes.threads), [=, &at](int64_t first, int64_t last) {
        if (out != y) std::copy(y + first * C, y + last * C, out + first * C);
        if (derivative && C) gelu((last - first) * C, out + first * C, derivative + first * C);
        for_spans(at, C, first, last, [=](int64_t begin, int64_t from, int64_t n) {
            if (given) add_given(n, given + from, gain, out + begin);
            if (best) choose(n, out + begin, best + from, top + begin, chosen + begin);
        });
    });
}

// y = the share of out in the gradients to out and top; grad_best gets the rest, where there is one.
template <class T>
void shares(int64_t n, const T* __restrict__ g_out, const T* __restrict__ g_top, const uint8_t* __restrict__ chosen,
            bool add, T* __restrict__ y, T* __restrict__ grad_best) {
    if (!g_top) {
        std::copy_n(g_out, n, y);
        if (grad_best && !add) std::fill_n(grad_best, n, T(0));
        return;
    }
    for (int64_t c = 0; c < n; c++) y[c] = !chosen || chosen[c] ? g_top[c] : T(0);
    for (int64_t c = 0; grad_best && c < n; c++)
        grad_best[c] = (add ? grad_best[c] : T(0)) + (chosen[c] ? T(0) : g_top[c]);
    for (int64_t c = 0; g_out && c < n; c++) y[c] += g_out[c];
}

// The branch gets the gain times that, and the slope of the activation; what it was added to gets it as it is.
template <class T>
void pass_on(int64_t n, T gain, const T* __restrict__ derivative, bool add, T* __restrict__ y,
             T* __restrict__ grad_given) {
    for (int64_t c = 0; grad_given && c < n; c++) grad_given[c] = (add ? grad_given[c] : T(0)) + y[c];
    if (derivative)
        for (int64_t c = 0; c < n; c++) y[c] *= gain * derivative[c];
    else
        for (int64_t c = 0; c < n; c++) y[c] *= gain;
}

template <class T>
void join_grad(const MimogcSizes& sizes, const MimogcJoin& at, const T* derivative, const T* g_out, const T* g_top,
               T* grad_y, T* grad_given, T* grad_best) {
    const int64_t C = sizes.C;
    const T gain = at.given ? T(at.gain) : T(1);
    const uint8_t* chosen = at.best ? as<uint8_t>(at.chosen) : nullptr;
    const bool add = at.parent;  // several may have one parent
    for (T* grad : {grad_given, grad_best})
        if (grad && add) std::fill_n(grad, at.before * C, T(0));
    const int threads = add ? 1 : threads_for(8 * at.rows * C, sizes.threads);
    for_blocks(at.rows, threads, [=, &at](int64_t first, int64_t last) {
        for_spans(at, C, first, last, [=](int64_t begin, int64_t to, int64_t n) {
            shares<T>(n, g_out ? g_out + begin : nullptr, g_top ? g_top + begin : nullptr,
                      chosen ? chosen + begin : nullptr, add, grad_y + begin, grad_best ? grad_best + to : nullptr);
            pass_on<T>(n, gain, derivative ? derivative + begin : nullptr, add, grad_y + begin,
                       grad_given ? grad_given + to : nullptr);
        });
    });
}

template <class T>
void softmax(const MimogcGraph& graph, const MimogcSizes& sizes, const T* scores, T* alpha) {
    const int64_t K = sizes.K, work = 16 * graph.num_edges * K;
    for_rows<T>(graph.rowptr, graph.num_dst, work, sizes.threads, [&](int64_t i, std::vector<T>& room) {
        const int64_t begin = graph.rowptr[i] * K, count = graph.rowptr[i + 1] - graph.rowptr[i];
        softmax_row<T>(K, count, scores + begin, alpha + begin, room);
    });
}

template <class T>
void softmax_grad(const MimogcGraph& graph, const MimogcSizes& sizes, const T* alpha, const T* g, T* grad) {
    const int64_t K = sizes.K, work = 4 * graph.num_edges * K;
    for_rows<T>(graph.rowptr, graph.num_dst, work, sizes.threads, [&](int64_t i, std::vector<T>& room) {
        const int64_t begin = graph.rowptr[i] * K, count = graph.rowptr[i + 1] - graph.rowptr[i];
        softmax_row_grad<T>(K, count, alpha + begin, g + begin, grad + begin, room);
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
