// The linear map of layers whose other steps have kernels of their own, and its gradients: for the widths of layers
// these products are quicker than those of a general library.
#include "call.h"
#include "pages.h"
#include "product.h"
#include "split.h"
#include "totals.h"

namespace mimogc {
namespace {

// Sixteen multiply-adds of a product take as long as one of a gathered row, which threads are counted by.
int64_t work(int64_t rows, int64_t F, int64_t width) { return rows * width * (1 + F / 16); }

template <class T>
void linear(const MimogcSizes& sizes, int64_t N, const T* x, const T* weight, T* h) {
    const int64_t F = sizes.F, width = sizes.K * sizes.C, panels = panels_of<T>(width), panel = F * kPanel<T>;
    Team team(threads_for(work(N, F, width), sizes.threads));
    const Room<T> packed(panels * panel);
    team.run([&] {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < panels; p++) pack_transposed<T>(p, width, F, weight, packed.get() + p * panel);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < N; n += kBlock)
            times_packed<T>(std::min(kBlock, N - n), F, width, x + n * F, packed.get(), h + n * width);
    });
}

template <class T>
void linear_grad(const MimogcSizes& sizes, int64_t N, const T* x, const T* weight, const T* g, T* grad_x,
                 T* grad_weight) {
    const int64_t F = sizes.F, width = sizes.K * sizes.C;
    const int64_t x_panels = grad_x ? panels_of<T>(F) : 0, x_panel = width * kPanel<T>;
    const int64_t w_panels = grad_weight ? panels_of<T>(width) : 0, w_panel = F * kPanel<T>;
    Team team(threads_for(2 * work(N, F, width), sizes.threads));
    const int threads = team.threads;
    const Room<T> packed(x_panels * x_panel);
    std::vector<Totals<T>> totals(threads, Totals<T>(0, w_panels * w_panel, 0, 0, 0));
    team.run([&] {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < x_panels; p++) pack<T>(p, width, F, weight, packed.get() + p * x_panel);
#pragma omp for schedule(static, 1)
        for (int part = 0; part < threads; part++) {
            const int64_t end = N * (part + 1) / threads;
            for (int64_t n = N * part / threads; n < end; n += kBlock) {
                const int64_t rows = std::min(kBlock, end - n);
                const T* own_g = g + n * width;
                if (grad_x) times_packed<T>(rows, width, F, own_g, packed.get(), grad_x + n * F);
                if (grad_weight)
                    add_transposed_product<T>(rows, F, width, x + n * F, own_g, totals[part].weight.data());
            }
        }
        add_totals<T>(totals, F, width, grad_weight, nullptr);
    });
}

}  // namespace
}  // namespace mimogc

using namespace mimogc;

int64_t mimogc_linear(const MimogcSizes* sizes, int64_t rows, const void* x, const void* weight, void* h) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        linear<T>(*sizes, rows, as<T>(x), as<T>(weight), as<T>(h));
    });
}

int64_t mimogc_linear_grad(const MimogcSizes* sizes, int64_t rows, const void* x, const void* weight, const void* g,
                           void* grad_x, void* grad_weight) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        linear_grad<T>(*sizes, rows, as<T>(x), as<T>(weight), as<T>(g), as<T>(grad_x), as<T>(grad_weight));
    });
}
