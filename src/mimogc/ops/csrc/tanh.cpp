// The sums of tanh.h as functions of their own.
#include "tanh.h"

using namespace mimogc;

namespace {

template <class T>
void tanh_sum_grad(const MimogcGraph& graph, const MimogcSizes& sizes, const Scores<T>& scores, const T* h, const T* g,
                   T* grad_s, T* grad_t, T* grad_h, T* grad_edge) {
    const int64_t K = sizes.K, width = K * sizes.C;
    Team team(threads_for(2 * graph.num_edges * width, sizes.threads));
    team.run([&] {
        team.share_rows<T>(graph.colptr, graph.num_src, [&](int64_t j, std::vector<T>& scratch) {
            source_grad<T>(j, graph, sizes, scores, h, g, grad_h + j * width, grad_t + j * scores.stride, grad_edge,
                           scratch);
        });
        team.share_rows<T>(graph.rowptr, graph.num_dst, [&](int64_t i, std::vector<T>&) {
            score_totals<T>(graph.rowptr[i], graph.rowptr[i + 1], K, grad_edge, grad_s + i * scores.stride);
        });
    });
}

}  // namespace

int64_t mimogc_tanh_sum(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcScores* scores, int64_t first,
                        int64_t rows, const void* h, void* out) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        const int64_t edges = int64_t(graph->rowptr[first + rows]) - graph->rowptr[first];
        Team team(threads_for(edges * sizes->K * sizes->C, sizes->threads));
        team.run([&] {
            share_tanh_sum<T>(team, *graph, *sizes, first, rows, Scores<T>(*scores), as<T>(h), nullptr, as<T>(out),
                              nullptr);
        });
    });
}

int64_t mimogc_tanh_sum_grad(const MimogcGraph* graph, const MimogcSizes* sizes, const MimogcScores* scores,
                             const void* h, const void* g, void* grad_s, void* grad_t, void* grad_h, void* grad_edge) {
    return typed(sizes, [&](auto type) {
        using T = decltype(type);
        tanh_sum_grad<T>(*graph, *sizes, Scores<T>(*scores), as<T>(h), as<T>(g), as<T>(grad_s), as<T>(grad_t),
                         as<T>(grad_h), as<T>(grad_edge));
    });
}
