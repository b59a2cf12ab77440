// GIN's layer, an MLP of the sum over a node and its neighbours, in one parallel region; and its gradients in another.
#include "call.h"
#include "pages.h"
#include "product.h"
#include "split.h"
#include "totals.h"

namespace mimogc {
namespace {

// As a sum over the edges and two products do: sixteen multiply-adds of a product take as long as one of a gathered
// row.
int64_t work(const MimogcGraph& graph, int64_t F, int64_t C) {
    return graph.num_edges * F + graph.num_dst * (F + (F + C) * C / 16);
}

// out += row, for F numbers.
template <class T>
inline void add_row(int64_t F, const T* __restrict__ row, T* __restrict__ out) {
    for (int64_t f = 0; f < F; f++) out[f] += row[f];
}

// z = own · x_i + Σ_j x_j over the edges into i.
template <class T>
inline void neighbour_sum(int64_t i, const MimogcGraph& graph, int64_t F, T own, const T* x, T* __restrict__ z) {
    const T* self = x + (graph.parent ? graph.parent[i] : i) * F;
    for (int64_t f = 0; f < F; f++) z[f] = own * self[f];
    for (int64_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) add_row(F, x + graph.sources[e] * F, z);
}

// h = ReLU(h + bias), where NaN stays NaN.
template <class T>
void add_and_rectify(int64_t rows, int64_t C, const T* __restrict__ bias, T* __restrict__ h) {
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < C; c++) {
            const T value = h[n * C + c] + bias[c];
            h[n * C + c] = value < T(0) ? T(0) : value;
        }
}

// The gradient to what was rectified to h.
template <class T>
void rectify_grad(int64_t n, const T* __restrict__ h, T* __restrict__ g) {
    for (int64_t q = 0; q < n; q++) g[q] = h[q] <= T(0) ? T(0) : g[q];
}

template <class T>
void gin(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcMlp& given, const T* x, T* z, T* h, T* out) {
    const int64_t N = graph.num_dst, F = sizes.F, C = sizes.C;
    const int64_t panels = panels_of<T>(C), first_panel = F * kPanel<T>, last_panel = C * kPanel<T>;
    const T *first = as<T>(given.first), *last = as<T>(given.last), *last_bias = as<T>(given.last_bias);
    Team team(threads_for(work(graph, F, C), sizes.threads));
    const Room<T> packed(panels * first_panel), packed_last(panels * last_panel);
    team.run([&] {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < panels; p++) {
            pack_transposed<T>(p, C, F, first, packed.get() + p * first_panel);
            pack_transposed<T>(p, C, C, last, packed_last.get() + p * last_panel);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t begin = 0; begin < N; begin += kBlock) {
            const int64_t rows = std::min(kBlock, N - begin);
            for (int64_t i = begin; i < begin + rows; i++) neighbour_sum<T>(i, graph, F, T(given.own), x, z + i * F);
            times_packed<T>(rows, F, C, z + begin * F, packed.get(), h + begin * C);
            add_and_rectify<T>(rows, C, as<T>(given.first_bias), h + begin * C);
            times_packed<T>(rows, C, C, h + begin * C, packed_last.get(), out + begin * C);
            for (int64_t i = begin; i < begin + rows; i++) add_row(C, last_bias, out + i * C);
        }
    });
}

// grad_x_j = own · grad_z_j + Σ_i grad_z_i over the edges out of j; where rows have parents, own · grad_z of all that j
// is one of comes later.
template <class T>
inline void source_sum(int64_t j, const MimogcGraph& graph, int64_t F, T own, const T* grad_z, T* __restrict__ grad_x) {
    for (int64_t f = 0; f < F; f++) grad_x[f] = graph.parent ? T(0) : own * grad_z[j * F + f];
    for (int64_t e = graph.colptr[j]; e < graph.colptr[j + 1]; e++) add_row(F, grad_z + graph.targets[e] * F, grad_x);
}

template <class T>
void gin_grad(const MimogcGraph& graph, const MimogcSizes& sizes, const MimogcMlp& given, const T* z, const T* h,
              const T* g, T* grad_x, const MimogcMlpGradients& gradients) {
    const int64_t N = graph.num_dst, F = sizes.F, C = sizes.C;
    const int64_t panels = panels_of<T>(C), panel = C * kPanel<T>, x_panels = grad_x ? panels_of<T>(F) : 0;
    const T *first = as<T>(given.first), *last = as<T>(given.last), own = T(given.own);
    Team team(threads_for(2 * work(graph, F, C), sizes.threads));
    const int threads = team.threads;
    const Room<T> packed_last(panels * panel), packed(x_panels * panel), grad_z(grad_x ? N * F : 0);
    std::vector<Totals<T>> of_first(threads, Totals<T>(0, panels * F * kPanel<T>, 0, C, kBlock * C));
    std::vector<Totals<T>> of_last(threads, Totals<T>(0, panels * panel, 0, C, 0));
    team.run([&] {
#pragma omp for schedule(static) nowait
        for (int64_t p = 0; p < panels; p++) pack<T>(p, C, C, last, packed_last.get() + p * panel);
#pragma omp for schedule(static)
        for (int64_t p = 0; p < x_panels; p++) pack<T>(p, C, F, first, packed.get() + p * panel);
#pragma omp for schedule(static, 1)
        for (int part = 0; part < threads; part++) {
            T* block = of_first[part].block.data();
            const int64_t end = N * (part + 1) / threads;
            for (int64_t begin = N * part / threads; begin < end; begin += kBlock) {
                const int64_t rows = std::min(kBlock, end - begin);
                const T *own_g = g + begin * C, *own_h = h + begin * C;
                activation_grad<T>(rows, C, own_g, nullptr, nullptr, of_last[part]);
                add_transposed_product<T>(rows, C, C, own_h, own_g, of_last[part].weight.data());
                times_packed<T>(rows, C, C, own_g, packed_last.get(), block);
                rectify_grad<T>(rows * C, own_h, block);
                activation_grad<T>(rows, C, block, nullptr, nullptr, of_first[part]);
                add_transposed_product<T>(rows, F, C, z + begin * F, block, of_first[part].weight.data());
                if (grad_x) times_packed<T>(rows, C, F, block, packed.get(), grad_z.get() + begin * F);
            }
        }
        add_totals<T>(of_first, F, C, as<T>(gradients.first), nullptr);
        add_totals<T>(of_last, C, C, as<T>(gradients.last), nullptr);
        if (grad_x)
            team.share_rows<T>(graph.colptr, graph.num_src, [&](int64_t j, std::vector<T>&) {
                source_sum<T>(j, graph, F, own, grad_z.get(), grad_x + j * F);
            });
    });
    for (int64_t i = 0; grad_x && graph.parent && i < N; i++)
        for (int64_t f = 0; f < F; f++) grad_x[graph.parent[i] * F + f] += own * grad_z[i * F + f];
    add_small_totals<T>(of_first, 0, C, nullptr, as<T>(gradients.first_bias));
    add_small_totals<T>(of_last, 0, C, nullptr, as<T>(gradients.last_bias));
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_gin(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcMlp* mlp, const void* x, void* z,
                   void* h, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        gin<T>(*graph, *sizes, *mlp, as<T>(x), as<T>(z), as<T>(h), as<T>(out));
    });
}

int64_t mimogc_gin_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcMlp* mlp, const void* z,
                        const void* h, const void* g, void* grad_x, const MimogcMlpGradients* gradients) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        gin_grad<T>(*graph, *sizes, *mlp, as<T>(z), as<T>(h), as<T>(g), as<T>(grad_x), *gradients);
    });
}
