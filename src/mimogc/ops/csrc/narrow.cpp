// The paper's layer on graphs whose h no longer fits the caches: rows of x are gathered, and h is made a block at a
// time where it is needed and never stored. Backward gathers rows of g once; what a target's score gets is added up by
// each thread for itself, beside the scores that it reads there anyway.
#include <vector>

#include "call.h"
#include "pages.h"
#include "product.h"
#include "scores.h"
#include "tanh.h"
#include "totals.h"

namespace mimogc {
namespace {

// The weights as the products want them, and the products of blocks of rows.
template <class T>
struct Maps {
    const MimogcSizes& sizes;
    const int64_t K, C, F, width;  // width = K·C
    std::vector<T> to_h, to_out, to_x;

    Maps(const MimogcSizes& sizes, const T* weight, bool forward, bool back)
        : sizes(sizes), K(sizes.K), C(sizes.C), F(sizes.F), width(K * C) {
        to_h.resize(panels_of<T>(width) * F * kPanel<T>);
        for (int64_t p = 0; p < panels_of<T>(width); p++)
            pack_transposed<T>(p, width, F, weight, to_h.data() + p * F * kPanel<T>);
        if (forward) {  // [K·F, C]: row (k, f) is W^(k)[:, f]
            std::vector<T> stacked(K * F * C);
            for (int64_t k = 0; k < K; k++)
                for (int64_t c = 0; c < C; c++)
                    for (int64_t f = 0; f < F; f++) stacked[(k * F + f) * C + c] = weight[(k * C + c) * F + f];
            to_out.resize(panels_of<T>(C) * K * F * kPanel<T>);
            for (int64_t p = 0; p < panels_of<T>(C); p++)
                pack<T>(p, K * F, C, stacked.data(), to_out.data() + p * K * F * kPanel<T>);
        }
        if (back) {
            to_x.resize(panels_of<T>(F) * width * kPanel<T>);
            for (int64_t p = 0; p < panels_of<T>(F); p++)
                pack<T>(p, width, F, weight, to_x.data() + p * width * kPanel<T>);
        }
    }
    void h(int64_t rows, const T* x, T* h) const { times_packed<T>(rows, F, width, x, to_h.data(), h); }
    void out(int64_t rows, const T* sums, T* out) const { times_packed<T>(rows, K * F, C, sums, to_out.data(), out); }
    void x(int64_t rows, const T* h, T* x) const { times_packed<T>(rows, width, F, h, to_x.data(), x); }
};

constexpr int64_t kNodesOnly = 1 << 20;  // edges that a row costs where edges cost nothing

// body(part, first, rows, begins) for blocks of rows, each thread a part of its own of about the same work: always the
// same rows by the same thread, so that what it adds up does not depend on scheduling.
template <class Body>
void for_blocks(Team& team, const int32_t* ptr, int64_t rows, int64_t row_cost, const Body& body) {
    const int threads = team.threads;
#pragma omp for schedule(static, 1)
    for (int part = 0; part < threads; part++) {
        const int64_t begin = first_row(ptr, rows, part, threads, row_cost);
        const int64_t last = first_row(ptr, rows, part + 1, threads, row_cost);
        for (int64_t first = begin; first < last; first += kBlock)
            body(part, first, std::min(kBlock, last - first), first == begin);
    }
}

// Edges e .. e + kChunk of a row that ends at `end`.
inline Neighbours chunk_of(const MimogcGraph& graph, const int32_t* neighbour, int64_t e, int64_t end) {
    return {neighbour + e, std::min(kChunk, end - e), graph.num_edges - e};
}

// Fetches the rows of `values` that the edges behind these need.
template <class T>
inline void fetch_ahead(const Neighbours& nb, const T* values, int64_t stride) {
    const int64_t last = std::min(2 * kChunk, nb.readable);
    for (int64_t e = kChunk; e < last; e++) __builtin_prefetch(values + nb.index[e] * stride);
}

template <class T>
void narrow_layer(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcWeights& given, const T* x, T* st,
                  T* out, T* derivative) {
    const T *att = as<T>(given.att), *offset = as<T>(given.offset), *bias = as<T>(given.bias),
            *edge = as<T>(given.edge);
    const int64_t K = sizes.K, C = sizes.C, F = sizes.F, width = K * C, M = 2 * K, num_src = graph.num_src;
    const Maps<T> maps(sizes, as<T>(given.weight), true, false);
    const Gathered<T> gathered(x, num_src * F, num_src, graph.num_edges, sizes.threads);
    const Room<T> t(num_src * K);  // the scores of the sources close together, as they are gathered
    Team team(threads_for(graph.num_edges * K * F, sizes.threads));
    const int64_t block_size = kBlock * std::max(width, K * F), chunk_size = whole_vectors<T>(kChunk * K);
    const Room<T> blocks(team.threads * block_size), chunks(team.threads * chunk_size);
    team.run([&] {
        T *block = blocks.get() + team.number() * block_size, *a = chunks.get() + team.number() * chunk_size;
#pragma omp for schedule(dynamic, 16)
        for (int64_t first = 0; first < num_src; first += kBlock) {
            const int64_t rows = std::min(kBlock, num_src - first);
            maps.h(rows, x + first * F, block);
            scores_rows<T>(rows, width, M, T(sizes.slope), block, att, st + first * M);
            for (int64_t n = first; n < first + rows; n++)
                for (int64_t k = 0; k < K; k++) {
                    if (offset) st[n * M + k] += offset[k];
                    t[n * K + k] = st[n * M + K + k];
                }
        }
#pragma omp for schedule(dynamic, 4)
        for (int64_t first = 0; first < graph.num_dst; first += kBlock) {
            const int64_t rows = std::min(kBlock, graph.num_dst - first);
            for (int64_t i = first; i < first + rows; i++) {
                const int64_t begin = graph.rowptr[i], end = graph.rowptr[i + 1];
                T* sums = block + (i - first) * K * F;
                if (begin == end) std::fill_n(sums, K * F, T(0));
                for (int64_t e = begin; e < end; e += kChunk) {
                    const Neighbours nb = chunk_of(graph, graph.sources, e, end);
                    fetch_ahead<T>(nb, t.get(), K);
                    fill_alpha<T>(nb, nullptr, K, st + i * M, t.get(), K, edge ? edge + e * K : nullptr, nullptr, a);
                    for_heads(K, [&](auto KB, int64_t k) {
                        sum_chunk<T, KB>(nb, F, a + k, K, gathered.rows(), F, e > begin, sums + k * F, F);
                    });
                }
            }
            maps.out(rows, block, out + first * C);
            for (int64_t i = first; i < first + rows; i++) {
                for (int64_t c = 0; bias && c < C; c++) out[i * C + c] += bias[c];
                if (derivative) gelu(C, out + i * C, derivative + i * C);
            }
        }
    });
}

// Of one thread in the gradients: for every target its scores s, and beside them what it has added to their gradient.
template <class T>
struct Beside {
    Room<T> values;
    int64_t K;

    Beside(int64_t num_dst, int64_t K) : values(num_dst * 2 * K), K(K) {}
    void begin(int64_t num_dst, const T* st) {
        for (int64_t n = 0; n < num_dst * 2 * K; n += 2 * K)
            for (int64_t k = 0; k < K; k++) {
                values[n + k] = st[n + k];
                values[n + K + k] = 0;
            }
    }
};

// What KB scores of each target and of the source get: to_s[i] += d[e], to_t += Σ_e d[e].
template <class T, int KB>
inline void add_to_scores(const Neighbours& nb, int64_t stride, const T* d, int64_t K, T* to_s, T* to_t) {
    T total[KB] = {};
    for (int64_t e = 0; e < nb.count; e++) {
        T* place = to_s + nb.index[e] * stride;
        T given[KB], now[KB];
        for (int k = 0; k < KB; k++) given[k] = d[e * K + k];
        for (int k = 0; k < KB; k++) now[k] = place[k] + given[k];
        for (int k = 0; k < KB; k++) place[k] = now[k];
        for (int k = 0; k < KB; k++) total[k] += given[k];
    }
    for (int k = 0; k < KB; k++) to_t[k] += total[k];
}

// Of one thread in the gradients: room for a block of rows of h, of its gradient, of those to their scores and to x.
template <class T>
struct GradBlock {
    Room<T> h, to_h, to_scores, to_x, alpha, d;

    GradBlock(int64_t K, int64_t F, int64_t width)
        : h(kBlock * width),
          to_h(kBlock * width),
          to_scores(kBlock * K),
          to_x(kBlock * F),
          alpha(whole_vectors<T>(kChunk * K)),
          d(whole_vectors<T>(kChunk * K)) {}
};

template <class T>
void narrow_layer_grad(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcWeights& given, const T* x,
                       const T* st, const T* derivative, const T* g, const MimogcGradients& gradients) {
    T *grad_x = as<T>(gradients.x), *grad_edge = as<T>(gradients.edge), *grad_weight = as<T>(gradients.weight);
    T *grad_offset = as<T>(gradients.offset), *grad_bias = as<T>(gradients.bias);
    const T *att = as<T>(given.att), *edge = as<T>(given.edge), slope = T(sizes.slope);
    const int64_t K = sizes.K, C = sizes.C, F = sizes.F, width = K * C, M = 2 * K;
    const int64_t num_src = graph.num_src, num_dst = graph.num_dst;
    const Maps<T> maps(sizes, as<T>(given.weight), false, grad_x != nullptr);
    Team team(threads_for(2 * graph.num_edges * width, sizes.threads));
    const int threads = team.threads;
    const Room<T> scaled(derivative ? num_dst * C : 0);
    const int64_t weight_size = grad_weight ? panels_of<T>(width) * F * kPanel<T> : 0;
    std::vector<Totals<T>> totals(threads, Totals<T>(M * width, weight_size, K, grad_bias ? C : 0, 0));
    std::vector<Beside<T>> beside;
    std::vector<GradBlock<T>> blocks;
    for (int part = 0; part < threads; part++) {
        beside.emplace_back(num_dst, K);
        blocks.emplace_back(K, F, width);
    }
    const Gathered<T> gathered(g, derivative ? 0 : num_dst * C, num_dst, graph.num_edges, sizes.threads);
    const T* own_g = derivative ? scaled.get() : gathered.rows();
    // Adds to to_h what comes through the scores of one kind, whose gradients are in to_scores; then W gets its part.
    const auto finish = [&](int part, int64_t first, int64_t rows, int64_t kind) {
        GradBlock<T>& block = blocks[part];
        scores_grad_rows<T>(rows, width, K, slope, block.h.get(), att + kind * K * width, block.to_scores.get(),
                            block.to_h.get(), totals[part].att.data() + kind * K * width);
        if (grad_weight)
            add_transposed_product<T>(rows, F, width, x + first * F, block.to_h.get(), totals[part].weight.data());
    };
    team.run([&] {
        share_activation_grad<T>(num_dst, C, g, derivative, scaled.get(), totals);
        // By source: everything but what comes through the targets' scores, whose gradients are added up meanwhile.
        for_blocks(team, graph.colptr, num_src, 4 + F / 4, [&](int part, int64_t first, int64_t rows, bool begins) {
            GradBlock<T>& block = blocks[part];
            T *a = block.alpha.get(), *d = block.d.get(), *own = beside[part].values.get();
            if (begins) beside[part].begin(num_dst, st);
            maps.h(rows, x + first * F, block.h.get());
            for (int64_t j = first; j < first + rows; j++) {
                const int64_t begin = graph.colptr[j], end = graph.colptr[j + 1], at = (j - first) * width;
                T *h = block.h.get() + at, *to_h = block.to_h.get() + at, *to_t = &block.to_scores[(j - first) * K];
                std::fill_n(to_t, K, T(0));
                if (begin == end) std::fill_n(to_h, width, T(0));
                for (int64_t e = begin; e < end; e += kChunk) {
                    const Neighbours nb = chunk_of(graph, graph.targets, e, end);
                    const int32_t* slot = graph.slot + e;
                    fetch_ahead<T>(nb, own, M);
                    fill_alpha<T>(nb, nullptr, K, st + j * M + K, own, M, edge, slot, a);
                    for_heads(K, [&](auto KB, int64_t k) {
                        sum_chunk<T, KB>(nb, C, a + k, K, own_g, C, e > begin, to_h + k * C, C);
                        dot_shared<T, KB>(nb, C, own_g, C, h + k * C, C, d + k, K);
                    });
                    const int64_t n = whole_vectors<T>(nb.count * K);
                    for (int64_t q = 0; q < n; q++) d[q] *= T(1) - a[q] * a[q];
                    for_heads(
                        K, [&](auto KB, int64_t k) { add_to_scores<T, KB>(nb, M, d + k, K, own + K + k, to_t + k); });
                    for (int64_t q = 0; grad_edge && q < nb.count; q++)
                        std::copy_n(d + q * K, K, grad_edge + slot[q] * K);
                }
            }
            finish(part, first, rows, 1);
            if (grad_x) maps.x(rows, block.to_h.get(), grad_x + first * F);
        });
        // By target: what comes through its scores. In a part of a graph, sources behind the targets are others' nodes.
        for_blocks(team, graph.rowptr, num_dst, kNodesOnly, [&](int part, int64_t first, int64_t rows, bool) {
            GradBlock<T>& block = blocks[part];
            for (int64_t n = 0; n < rows; n++)
                for (int64_t k = 0; k < K; k++) {
                    T sum = 0;
                    for (int p = 0; p < threads; p++) sum += beside[p].values[(first + n) * M + K + k];
                    block.to_scores[n * K + k] = sum;
                    if (grad_offset) totals[part].offset[k] += sum;
                }
            maps.h(rows, x + first * F, block.h.get());
            std::fill_n(block.to_h.get(), rows * width, T(0));
            finish(part, first, rows, 0);
            if (!grad_x) return;
            maps.x(rows, block.to_h.get(), block.to_x.get());
            for (int64_t q = 0; q < rows * F; q++) grad_x[first * F + q] += block.to_x[q];
        });
        add_totals<T>(totals, F, width, grad_weight, as<T>(gradients.att));
    });
    add_small_totals<T>(totals, K, C, grad_offset, grad_bias);
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_narrow_layer(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights,
                            const void* x, void* st, void* out, void* derivative) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        narrow_layer<T>(*graph, *sizes, *weights, as<T>(x), as<T>(st), as<T>(out), as<T>(derivative));
    });
}

int64_t mimogc_narrow_layer_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights,
                                 const void* x, const void* st, const void* derivative, const void* g,
                                 const MimogcGradients* gradients) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        narrow_layer_grad<T>(*graph, *sizes, *weights, as<T>(x), as<T>(st), as<T>(derivative), as<T>(g), *gradients);
    });
}
