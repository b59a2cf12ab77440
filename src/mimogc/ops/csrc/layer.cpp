// The paper's whole layer in one parallel region: transform, scores, sum, bias and activation; and all its gradients in
// another. Without x the products with the weight are the caller's.
#include "call.h"
#include "product.h"
#include "scores.h"
#include "tanh.h"
#include "totals.h"

namespace mimogc {
namespace {

// The gradient to the s of a row: the sum over all nodes that are this row.
template <class T>
void add_score_totals(const MimogcGraph& graph, int64_t K, const T* grad_edge, T* grad_st) {
    for (int64_t j = 0; j < graph.num_src; j++) std::fill_n(grad_st + j * 2 * K, K, T(0));
    for (int64_t i = 0; i < graph.num_dst; i++) {
        T* total = grad_st + graph.parent[i] * (2 * K);
        for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++)
            for (int64_t k = 0; k < K; k++) total[k] += grad_edge[e * K + k];
    }
}

// The gradient to what each type adds to the scores, of which there are as many terms as edges.
template <class T>
void add_type_totals(int64_t E, int64_t K, const MimogcWeights& given, const T* grad_edge, T* grad_types) {
    std::vector<double> total(given.types * K, 0.0);
    for (int64_t e = 0; e < E; e++)
        for (int64_t k = 0; k < K; k++) total[given.kinds[e] * K + k] += grad_edge[e * K + k];
    std::copy(total.begin(), total.end(), grad_types);
}

// In a product sixteen multiply-adds take as long as one with a gathered row.
int64_t work(const MimogcGraph& graph, int64_t F, int64_t width) {
    return (graph.num_edges + graph.num_src * (1 + F / 16)) * width;
}

template <class T>
void layer(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcWeights& given, const T* x, T* h, T* st,
           T* out, T* derivative) {
    const T *weight = as<T>(given.weight), *att = as<T>(given.att), *offset = as<T>(given.offset);
    const int64_t num_src = graph.num_src, K = sizes.K, F = sizes.F, width = K * sizes.C, M = 2 * K;
    const int64_t panels = x ? panels_of<T>(width) : 0, panel = F * kPanel<T>;
    const Scores<T> scores(st, K, given);
    const T *scored = given.scaled ? x : h, slope = T(sizes.slope);
    const int64_t of = given.scaled ? F : width;
    Team team(threads_for(work(graph, x ? F : 0, width), sizes.threads));
    const Room<T> packed(panels * panel);
    team.run([&] {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < panels; p++) pack_transposed<T>(p, width, F, weight, packed.get() + p * panel);
#pragma omp for schedule(dynamic, 1)
        for (int64_t first = 0; first < num_src; first += kBlock) {
            const int64_t rows = std::min(kBlock, num_src - first);
            if (x) times_packed<T>(rows, F, width, x + first * F, packed.get(), h + first * width);
            scores_rows<T>(rows, of, M, slope, scored + first * of, att, st + first * M);
            for (int64_t n = first; offset && n < first + rows; n++)
                for (int64_t k = 0; k < K; k++) st[n * M + k] += offset[k];
        }
        share_tanh_sum<T>(team, graph, sizes, 0, graph.num_dst, scores, h, as<T>(given.bias), out, derivative);
    });
}

template <class T>
void layer_grad(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcWeights& given, const T* x, const T* h,
                const T* st, const T* derivative, const T* g, const MimogcGradients& gradients) {
    T *grad_x = as<T>(gradients.x), *grad_h = as<T>(gradients.h);
    T* grad_edge = given.kinds ? nullptr : as<T>(gradients.edge);
    T *grad_weight = as<T>(gradients.weight), *grad_offset = as<T>(gradients.offset),
      *grad_bias = as<T>(gradients.bias);
    const T *weight = as<T>(given.weight), *att = as<T>(given.att), slope = T(sizes.slope);
    const int64_t num_src = graph.num_src, num_dst = graph.num_dst, E = graph.num_edges;
    const int64_t K = sizes.K, C = sizes.C, F = sizes.F, width = K * C, M = 2 * K;
    const int64_t x_panels = grad_x ? panels_of<T>(F) : 0, x_panel = width * kPanel<T>;
    const int64_t w_panels = grad_weight ? panels_of<T>(width) : 0, w_panel = F * kPanel<T>;
    const int64_t att_size = M * (given.scaled ? F : width);
    const Scores<T> scores(st, K, given);
    Team team(threads_for(2 * work(graph, x ? F : 0, width), sizes.threads));
    const int threads = team.threads;
    // Without grad_h its rows are made block by block, of α in the order by source, where they are needed.
    const Room<T> packed(x_panels * x_panel), alpha(grad_h ? 0 : E * K);
    const Room<T> scaled(derivative ? num_dst * C : 0), grad_st(num_src * M), own_edge(grad_edge ? 0 : E * K);
    if (!grad_edge) grad_edge = own_edge.get();
    const int64_t block_size = grad_h ? 0 : kBlock * width;
    std::vector<Totals<T>> totals(threads, Totals<T>(att_size, w_panels * w_panel, K, grad_bias ? C : 0, block_size));
    const T* own_g = derivative ? scaled.get() : g;
    team.run([&] {
#pragma omp for schedule(static) nowait
        for (int64_t p = 0; p < x_panels; p++) pack<T>(p, width, F, weight, packed.get() + p * x_panel);
        share_activation_grad<T>(num_dst, C, g, derivative, scaled.get(), totals);
        team.share_rows<T>(graph.colptr, num_src, [&](int64_t j, std::vector<T>& scratch) {
            const Neighbours nb =
                source_grad<T>(j, graph, sizes, scores, h, own_g, grad_h ? grad_h + j * width : nullptr,
                               grad_st.get() + j * M + K, grad_edge, scratch);
            if (!grad_h) std::copy_n(scratch.data(), nb.count * K, alpha.get() + graph.colptr[j] * K);
        });
        if (graph.parent) {
#pragma omp single
            add_score_totals<T>(graph, K, grad_edge, grad_st.get());
        }
#pragma omp for schedule(static, 1)
        for (int part = 0; part < threads; part++) {
            Totals<T>& own = totals[part];
            const int64_t cost = 4 + F / 4, end = first_row(graph.colptr, num_src, part + 1, threads, cost);
            for (int64_t first = first_row(graph.colptr, num_src, part, threads, cost); first < end; first += kBlock) {
                const int64_t rows = std::min(kBlock, end - first);
                T* block = grad_h ? grad_h + first * width : own.block.data();
                for (int64_t j = first; j < first + rows; j++) {
                    const int64_t begin = graph.colptr[j];
                    const Neighbours nb = {graph.targets + begin, graph.colptr[j + 1] - begin, E - begin};
                    if (!grad_h) sum_to_heads(nb, K, C, alpha.get() + begin * K, own_g, block + (j - first) * width);
                    if (!graph.parent)  // in a part of a graph, sources behind the targets are others' nodes
                        score_totals<T>(j < num_dst ? graph.rowptr[j] : 0, j < num_dst ? graph.rowptr[j + 1] : 0, K,
                                        grad_edge, grad_st.get() + j * M);
                }
                for (int64_t j = first; grad_offset && j < first + rows; j++)
                    for (int64_t k = 0; k < K; k++) own.offset[k] += grad_st[j * M + k];
                const T* of_scores = grad_st.get() + first * M;
                if (!given.scaled)
                    scores_grad_rows<T>(rows, width, M, slope, h + first * width, att, of_scores, block,
                                        own.att.data());
                if (grad_x) times_packed<T>(rows, width, F, block, packed.get(), grad_x + first * F);
                if (given.scaled)
                    scores_grad_rows<T>(rows, F, M, slope, x + first * F, att, of_scores, grad_x + first * F,
                                        own.att.data());
                if (grad_weight) add_transposed_product<T>(rows, F, width, x + first * F, block, own.weight.data());
            }
        }
        add_totals<T>(totals, F, width, grad_weight, as<T>(gradients.att));
    });
    add_small_totals<T>(totals, K, C, grad_offset, grad_bias);
    if (given.kinds && gradients.edge) add_type_totals<T>(E, K, given, grad_edge, as<T>(gradients.edge));
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_layer(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights, const void* x,
                     void* h, void* st, void* out, void* derivative) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        layer<T>(*graph, *sizes, *weights, as<T>(x), as<T>(h), as<T>(st), as<T>(out), as<T>(derivative));
    });
}

int64_t mimogc_layer_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcWeights* weights,
                          const void* x, const void* h, const void* st, const void* derivative, const void* g,
                          const MimogcGradients* gradients) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        layer_grad<T>(*graph, *sizes, *weights, as<T>(x), as<T>(h), as<T>(st), as<T>(derivative), as<T>(g), *gradients);
    });
}
