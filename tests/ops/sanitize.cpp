// Calls every kernel on graphs where indices go wrong, in buffers of the exact size, and compares with plain loops.
// Built with AddressSanitizer and UndefinedBehaviorSanitizer by sanitize.py: a read or write outside a buffer aborts.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "call.h"

namespace {

std::mt19937 generator(0);
int failures = 0;

template <class T>
std::vector<T> random_values(int64_t n) {
    std::normal_distribution<T> normal;
    std::vector<T> out(n);
    for (T& value : out) value = normal(generator);
    return out;
}

// Measured by the largest value, or one: where large terms cancel, the rounding of these remains.
template <class T>
void expect(const char* what, const std::vector<T>& found, const std::vector<double>& wanted) {
    double tolerance = 1;
    for (double value : wanted) tolerance = std::max(tolerance, std::abs(value));
    tolerance *= sizeof(T) == 4 ? 5e-5 : 1e-12;
    for (size_t q = 0; q < wanted.size(); q++) {
        if (!(std::abs(found[q] - wanted[q]) <= tolerance)) {
            std::printf("%s[%zu]: %g instead of %g\n", what, q, double(found[q]), wanted[q]);
            failures++;
            return;
        }
    }
}

struct Sorted {
    int64_t N, E;
    std::vector<int32_t> rowptr, colptr, sources, targets, slot;
    std::vector<int64_t> src, dst;  // of the sorted edges

    MimogcGraph graph() const {
        return {N, N, E, rowptr.data(), sources.data(), colptr.data(), targets.data(), slot.data(), nullptr};
    }
};

Sorted sorted(int64_t N, const std::vector<int64_t>& src, const std::vector<int64_t>& dst, bool loops) {
    const int64_t capacity = int64_t(src.size()) + (loops ? N : 0);
    std::vector<int32_t> out(2 * (N + 1) + 4 * capacity);
    const int64_t E = mimogc_sort_edges(src.data(), dst.data(), 8, src.size(), N, N, loops, 1, out.data());
    Sorted graph{N, E, {}, {}, {}, {}, {}, {}, {}};
    auto part = out.begin();
    graph.rowptr.assign(part, part + N + 1), part += N + 1;
    graph.colptr.assign(part, part + N + 1), part += N + 1;
    graph.sources.assign(part, part + E), part += capacity;
    part += capacity;  // position
    graph.targets.assign(part, part + E), part += capacity;
    graph.slot.assign(part, part + E);
    for (int64_t i = 0; i < N; i++)
        for (int32_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
            graph.src.push_back(graph.sources[e]);
            graph.dst.push_back(i);
        }
    return graph;
}

void expect_done(int64_t returned) { failures += returned != 0; }

// The layer with the products of its own: h, and the gradients that are made of those to h and to the output.
template <class T>
void check_products(const Sorted& at, int64_t K, int64_t C, int threads) {
    const int64_t N = at.N, E = at.E, width = K * C;
    const MimogcGraph graph = at.graph();
    for (int64_t F : {32, 33, 71}) {
        const MimogcSizes sizes = {sizeof(T), threads, MIMOGC_HEADS_TO_SUM, K, C, F, 0.2};
        const auto x = random_values<T>(N * F), g = random_values<T>(N * C);
        auto att = random_values<T>(2 * K * width), w = random_values<T>(width * F);
        for (T& value : att) value /= T(100);
        for (T& value : w) value /= T(30);  // sums stay of a size where rounding does not show
        std::vector<T> h(N * width), st(N * 2 * K), out(N * C), derivative(N * C);
        const auto offset = random_values<T>(K);
        const MimogcWeights weights = {w.data(), att.data(), offset.data(), nullptr, nullptr};
        expect_done(
            mimogc_layer(&graph, &sizes, &weights, x.data(), h.data(), st.data(), out.data(), derivative.data()));
        std::vector<T> grad_edge(E * K), grad_h(N * width), grad_x(N * F);
        std::vector<T> grad_w(width * F), grad_att(2 * K * width), grad_offset(K), grad_bias(C);
        const MimogcGradients gradients = {grad_x.data(),      grad_h.data(),    grad_w.data(),   grad_att.data(),
                                           grad_offset.data(), grad_edge.data(), grad_bias.data()};
        expect_done(mimogc_layer_grad(&graph, &sizes, &weights, x.data(), h.data(), st.data(), derivative.data(),
                                      g.data(), &gradients));
        std::vector<double> wanted_h(N * width), wanted_x(N * F), wanted_w(width * F), wanted_bias(C);
        std::vector<double> wanted_offset(K);
        for (int64_t q = 0; q < E * K; q++) wanted_offset[q % K] += grad_edge[q];
        expect("grad_offset", grad_offset, wanted_offset);
        for (int64_t n = 0; n < N; n++) {
            for (int64_t q = 0; q < width; q++)
                for (int64_t f = 0; f < F; f++) {
                    wanted_h[n * width + q] += double(x[n * F + f]) * w[q * F + f];
                    wanted_x[n * F + f] += double(grad_h[n * width + q]) * w[q * F + f];
                    wanted_w[q * F + f] += double(grad_h[n * width + q]) * x[n * F + f];
                }
            for (int64_t c = 0; c < C; c++) wanted_bias[c] += double(g[n * C + c]) * derivative[n * C + c];
        }
        expect("h", h, wanted_h);
        expect("grad_x", grad_x, wanted_x);
        expect("grad_w", grad_w, wanted_w);
        expect("grad_bias", grad_bias, wanted_bias);
        if (C >= 32) {  // the other order gives the same
            std::vector<double> wanted(out.begin(), out.end()), wanted_edge(grad_edge.begin(), grad_edge.end());
            expect_done(
                mimogc_narrow_layer(&graph, &sizes, &weights, x.data(), st.data(), out.data(), derivative.data()));
            expect_done(mimogc_narrow_layer_grad(&graph, &sizes, &weights, x.data(), st.data(), derivative.data(),
                                                 g.data(), &gradients));
            expect("out of the narrow order", out, wanted);
            expect("its grad_edge", grad_edge, wanted_edge);
            expect("its grad_offset", grad_offset, wanted_offset);
            expect("its grad_x", grad_x, wanted_x);
            expect("its grad_w", grad_w, wanted_w);
        }
    }
}

// GIN's layer, and the gradients of its output times g.
template <class T>
void check_gin(const Sorted& at, int64_t F, int64_t C, int threads) {
    const int64_t N = at.N;
    const double own = 1.5;
    const MimogcGraph graph = at.graph();
    const MimogcSizes sizes = {sizeof(T), threads, MIMOGC_HEADS_TO_SUM, 1, C, F, 0.0};
    const auto x = random_values<T>(N * F), g = random_values<T>(N * C), b1 = random_values<T>(C),
               b2 = random_values<T>(C);
    auto w1 = random_values<T>(C * F), w2 = random_values<T>(C * C);
    for (T& value : w1) value /= T(30);
    for (T& value : w2) value /= T(30);
    const MimogcMlp mlp = {w1.data(), b1.data(), w2.data(), b2.data(), own};
    std::vector<T> z(N * F), h(N * C), out(N * C);
    expect_done(mimogc_gin(&graph, &sizes, &mlp, x.data(), z.data(), h.data(), out.data()));
    std::vector<T> grad_x(N * F), grad_w1(C * F), grad_b1(C), grad_w2(C * C), grad_b2(C);
    const MimogcMlpGradients gradients = {grad_w1.data(), grad_b1.data(), grad_w2.data(), grad_b2.data()};
    expect_done(
        mimogc_gin_grad(&graph, &sizes, &mlp, z.data(), h.data(), g.data(), nullptr, &gradients));  // x is not learnt
    expect_done(mimogc_gin_grad(&graph, &sizes, &mlp, z.data(), h.data(), g.data(), grad_x.data(), &gradients));
    std::vector<double> wanted_z(N * F), wanted_out(N * C), back(N * C), back_z(N * F), wanted_x(N * F);
    std::vector<double> wanted_w1(C * F), wanted_b1(C), wanted_w2(C * C), wanted_b2(C);
    for (int64_t q = 0; q < N * F; q++) wanted_z[q] = own * x[q];
    for (int64_t e = 0; e < at.E; e++)
        for (int64_t f = 0; f < F; f++) wanted_z[at.dst[e] * F + f] += x[at.src[e] * F + f];
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++) {
            double value = b2[c];
            for (int64_t d = 0; d < C; d++) {
                value += double(h[n * C + d]) * w2[c * C + d];
                wanted_w2[c * C + d] += double(g[n * C + c]) * h[n * C + d];
                if (h[n * C + d] > 0) back[n * C + d] += double(g[n * C + c]) * w2[c * C + d];
            }
            wanted_out[n * C + c] = value;
            wanted_b2[c] += g[n * C + c];
        }
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++) {
            wanted_b1[c] += back[n * C + c];
            for (int64_t f = 0; f < F; f++) {
                wanted_w1[c * F + f] += back[n * C + c] * z[n * F + f];
                back_z[n * F + f] += back[n * C + c] * w1[c * F + f];
            }
        }
    for (int64_t q = 0; q < N * F; q++) wanted_x[q] = own * back_z[q];
    for (int64_t e = 0; e < at.E; e++)
        for (int64_t f = 0; f < F; f++) wanted_x[at.src[e] * F + f] += back_z[at.dst[e] * F + f];
    expect("z", z, wanted_z);
    expect("out of gin", out, wanted_out);
    expect("its grad_x", grad_x, wanted_x);
    expect("its grad_first", grad_w1, wanted_w1);
    expect("its grad_first_bias", grad_b1, wanted_b1);
    expect("its grad_last", grad_w2, wanted_w2);
    expect("its grad_last_bias", grad_b2, wanted_b2);
}

// The linear map, its gradients, and a layer of K graphs whose scores are of x, with α times the scale of both ends;
// with `typed` its edges have types, and what nodes receive of each has a gradient, too.
template <class T>
void check_scaled(const Sorted& at, int64_t F, int64_t K, int64_t C, int threads, bool typed) {
    const int64_t N = at.N, width = K * C, M = 2 * K, types = 2;
    const MimogcGraph graph = at.graph();
    const MimogcSizes sizes = {sizeof(T), threads, MIMOGC_HEADS_TO_SUM, K, C, F, 1.0};
    const auto x = random_values<T>(N * F), scale = random_values<T>(N), g = random_values<T>(N * C),
               g_map = random_values<T>(N * width), table = random_values<T>(types * K), offset = random_values<T>(K),
               g_received = random_values<T>(N * types * K);
    std::vector<T> received(N * types * K), grad_table(types * K), grad_offset(K);
    std::vector<double> wanted_received(N * types * K), wanted_table(types * K), wanted_offset(K);
    std::vector<int64_t> kinds(at.E);
    for (int64_t e = 0; e < at.E; e++) kinds[e] = e % types;
    auto w = random_values<T>(width * F), att = random_values<T>(M * F);
    for (T& value : w) value /= T(30);
    for (T& value : att) value /= T(30);
    std::vector<T> h(N * width), h_layer(N * width), st(N * M), out(N * C), map_x(N * F), map_w(width * F);
    expect_done(mimogc_linear(&sizes, N, x.data(), w.data(), h.data()));
    expect_done(mimogc_linear_grad(&sizes, N, x.data(), w.data(), g_map.data(), nullptr, nullptr));
    expect_done(mimogc_linear_grad(&sizes, N, x.data(), w.data(), g_map.data(), map_x.data(), map_w.data()));
    MimogcWeights weights = {w.data(), att.data()};
    weights.scaled = 1, weights.scale = scale.data();
    if (typed) {
        weights.edge = table.data(), weights.offset = offset.data();
        weights.kinds = kinds.data(), weights.types = types, weights.received = received.data();
    }
    expect_done(mimogc_layer(&graph, &sizes, &weights, x.data(), h_layer.data(), st.data(), out.data(), nullptr));
    std::vector<double> wanted_h(N * width), wanted_map_x(N * F), wanted_map_w(width * F), wanted_st(N * M);
    std::vector<double> wanted_out(N * C), wanted_x(N * F), wanted_w(width * F), wanted_att(M * F), back_h(N * width),
        back_st(N * M);
    for (int64_t n = 0; typed && n < N; n++)
        for (int64_t k = 0; k < K; k++) wanted_st[n * M + k] = offset[k];
    for (int64_t n = 0; n < N; n++)
        for (int64_t f = 0; f < F; f++) {
            for (int64_t c = 0; c < width; c++) {
                wanted_h[n * width + c] += double(x[n * F + f]) * w[c * F + f];
                wanted_map_x[n * F + f] += double(g_map[n * width + c]) * w[c * F + f];
                wanted_map_w[c * F + f] += double(g_map[n * width + c]) * x[n * F + f];
            }
            for (int64_t m = 0; m < M; m++) wanted_st[n * M + m] += double(x[n * F + f]) * att[m * F + f];
        }
    for (int64_t e = 0; e < at.E; e++)
        for (int64_t k = 0; k < K; k++) {
            const int64_t i = at.dst[e], j = at.src[e], t = kinds[e] * K + k, place = i * types * K + t;
            const double ends = double(scale[i]) * scale[j], more = typed ? double(table[t]) : 0,
                         a = std::tanh(wanted_st[i * M + k] + wanted_st[j * M + K + k] + more);
            double back = typed ? g_received[place] : 0;
            wanted_received[place] += ends * a;
            for (int64_t c = 0; c < C; c++) {
                wanted_out[i * C + c] += ends * a * wanted_h[(j * K + k) * C + c];
                back_h[(j * K + k) * C + c] += ends * a * g[i * C + c];
                back += wanted_h[(j * K + k) * C + c] * g[i * C + c];
            }
            back *= ends * (1 - a * a);
            back_st[i * M + k] += back, back_st[j * M + K + k] += back;
            wanted_table[t] += back, wanted_offset[k] += back;
        }
    for (int64_t n = 0; n < N; n++)
        for (int64_t f = 0; f < F; f++) {
            for (int64_t c = 0; c < width; c++) {
                wanted_x[n * F + f] += back_h[n * width + c] * w[c * F + f];
                wanted_w[c * F + f] += back_h[n * width + c] * x[n * F + f];
            }
            for (int64_t m = 0; m < M; m++) {
                wanted_x[n * F + f] += back_st[n * M + m] * att[m * F + f];
                wanted_att[m * F + f] += back_st[n * M + m] * x[n * F + f];
            }
        }
    expect("linear", h, wanted_h);
    expect("its grad_x", map_x, wanted_map_x);
    expect("its grad_w", map_w, wanted_map_w);
    expect("h of scaled", h_layer, wanted_h);
    expect("st of scaled", st, wanted_st);
    expect("out of scaled", out, wanted_out);
    if (typed) {
        expect("received of scaled", received, wanted_received);
        received = g_received;
    }
    std::vector<T> kept_h(N * width), grad_x(N * F), grad_w(width * F), grad_att(M * F);
    for (T* of_h : {static_cast<T*>(nullptr), kept_h.data()}) {
        MimogcGradients gradients = {grad_x.data(), of_h, grad_w.data(), grad_att.data(), nullptr, nullptr, nullptr};
        if (typed) gradients.edge = grad_table.data(), gradients.offset = grad_offset.data();
        expect_done(mimogc_layer_grad(&graph, &sizes, &weights, x.data(), h_layer.data(), st.data(), nullptr, g.data(),
                                      &gradients));
        expect("grad_x of scaled", grad_x, wanted_x);
        expect("grad_w of scaled", grad_w, wanted_w);
        expect("grad_att of scaled", grad_att, wanted_att);
        if (!typed) continue;
        expect("grad_table of scaled", grad_table, wanted_table);
        expect("grad_offset of scaled", grad_offset, wanted_offset);
    }
}

// A layer on classes of nodes that are alike gives what the layer on all nodes gives, and the same gradients.
template <class T>
void check_classes(const Sorted& at, int64_t K, int64_t C, int threads) {
    const int64_t N = at.N, E = at.E, F = 33, R = 3, width = K * C, M = 2 * K;
    const MimogcGraph graph = at.graph();
    const MimogcSizes sizes = {sizeof(T), threads, MIMOGC_HEADS_TO_SUM, K, C, F, 0.2};
    std::vector<int64_t> index(N);
    for (int64_t i = 0; i < N; i++) index[i] = i % R;
    std::vector<int32_t> room(2 * (2 * N + 2 + 3 * E + std::max(N, R)));
    std::vector<MimogcGraph> links(2);
    const auto classes = [&](int64_t most) {
        return mimogc_classes(&graph, R, index.data(), 2, most, links.data(), room.data());
    };
    if (classes(-1) != 1 || links[0].num_dst != N || links[0].num_edges != E) failures++;
    if (classes(N + R) != 2 || links[1].num_dst != N || links[1].num_edges != E) failures++;
    const int64_t n = links[0].num_dst, m = links[0].num_edges;
    room.assign(2 * n + 1 + R + 1 + 3 * m + 2 * N + 1 + n + 1 + 3 * E, 0);  // no more than is needed
    classes(N + R);
    const int32_t* class_of = links[1].parent;

    const auto table = random_values<T>(R * F), g = random_values<T>(N * C);
    auto att = random_values<T>(M * width), w = random_values<T>(width * F);
    for (T& value : att) value /= T(100);
    for (T& value : w) value /= T(30);  // sums stay of a size where rounding does not show
    std::vector<T> x(N * F), class_g(n * C);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t f = 0; f < F; f++) x[i * F + f] = table[index[i] * F + f];
        for (int64_t c = 0; c < C; c++) class_g[class_of[i] * C + c] += g[i * C + c];
    }
    // Of all nodes, and of the classes.
    std::vector<T> h(N * width), st(N * M), out(N * C), slopes(N * C), h1(R * width), st1(R * M), out1(n * C),
        slopes1(n * C);
    const auto offset = random_values<T>(K);
    const MimogcWeights weights = {w.data(), att.data(), offset.data(), nullptr, nullptr};
    expect_done(mimogc_layer(&graph, &sizes, &weights, x.data(), h.data(), st.data(), out.data(), slopes.data()));
    expect_done(
        mimogc_layer(&links[0], &sizes, &weights, table.data(), h1.data(), st1.data(), out1.data(), slopes1.data()));
    std::vector<T> spread(N * C);
    for (int64_t q = 0; q < N * C; q++) spread[q] = out1[class_of[q / C] * C + q % C];
    expect("layer on classes", spread, {out.begin(), out.end()});

    std::vector<T> grad_edge(E * K), grad_x(N * F), grad_w(width * F), grad_att(M * width);
    std::vector<T> grad_x1(R * F), grad_w1(width * F), grad_att1(M * width), grad_offset(K), grad_offset1(K);
    const MimogcGradients gradients = {grad_x.data(),      nullptr,          grad_w.data(), grad_att.data(),
                                       grad_offset.data(), grad_edge.data(), nullptr};
    const MimogcGradients gradients1 = {grad_x1.data(),      nullptr, grad_w1.data(), grad_att1.data(),
                                        grad_offset1.data(), nullptr, nullptr};
    expect_done(mimogc_layer_grad(&graph, &sizes, &weights, x.data(), h.data(), st.data(), slopes.data(), g.data(),
                                  &gradients));
    expect_done(mimogc_layer_grad(&links[0], &sizes, &weights, table.data(), h1.data(), st1.data(), slopes1.data(),
                                  class_g.data(), &gradients1));
    std::vector<double> wanted_x(R * F);
    expect("grad_offset of classes", grad_offset1, {grad_offset.begin(), grad_offset.end()});
    for (int64_t q = 0; q < N * F; q++) wanted_x[index[q / F] * F + q % F] += grad_x[q];
    expect("grad_x of classes", grad_x1, wanted_x);
    expect("grad_w of classes", grad_w1, {grad_w.begin(), grad_w.end()});
    expect("grad_att of classes", grad_att1, {grad_att.begin(), grad_att.end()});
    if (N == 0) return;
    index[N - 1] = R;
    if (classes(-1) != -N) failures++;
}

template <class T>
void check(const Sorted& at, int64_t K, int64_t C, int threads) {
    const int64_t N = at.N, E = at.E;
    const MimogcGraph graph = at.graph();
    MimogcSizes sizes = {sizeof(T), threads, MIMOGC_HEADS_TO_SUM, K, C, 0, 0.2};
    const auto alpha = random_values<T>(E * K), h = random_values<T>(N * K * C), x = random_values<T>(N * C);
    for (int32_t shape : {MIMOGC_HEADS_TO_SUM, MIMOGC_SHARED_TO_HEADS, MIMOGC_HEADS_TO_HEADS}) {
        sizes.shape = shape;
        const auto& in = shape == MIMOGC_SHARED_TO_HEADS ? x : h;
        const bool summed = shape == MIMOGC_HEADS_TO_SUM;
        std::vector<double> wanted(N * (summed ? 1 : K) * C);
        for (int64_t e = 0; e < E; e++)
            for (int64_t k = 0; k < K; k++)
                for (int64_t c = 0; c < C; c++) {
                    const int64_t from =
                        shape == MIMOGC_SHARED_TO_HEADS ? at.src[e] * C + c : (at.src[e] * K + k) * C + c;
                    const int64_t to = summed ? at.dst[e] * C + c : (at.dst[e] * K + k) * C + c;
                    wanted[to] += double(alpha[e * K + k]) * in[from];
                }
        std::vector<T> out(wanted.size());
        expect_done(mimogc_sum(&graph, &sizes, 0, alpha.data(), in.data(), out.data()));
        expect("sum", out, wanted);
        if (shape == MIMOGC_SHARED_TO_HEADS) continue;

        const auto g = random_values<T>(wanted.size());
        std::vector<double> grad_alpha(E * K), grad_h(N * K * C);
        for (int64_t e = 0; e < E; e++)
            for (int64_t k = 0; k < K; k++)
                for (int64_t c = 0; c < C; c++) {
                    const int64_t from = (at.src[e] * K + k) * C + c;
                    const int64_t to = summed ? at.dst[e] * C + c : (at.dst[e] * K + k) * C + c;
                    grad_alpha[e * K + k] += double(g[to]) * h[from];
                    grad_h[from] += double(alpha[e * K + k]) * g[to];
                }
        std::vector<T> found_alpha(E * K), found_h(N * K * C), dots(E * K);
        expect_done(
            mimogc_sum_grad(&graph, &sizes, alpha.data(), h.data(), g.data(), found_alpha.data(), found_h.data()));
        expect_done(mimogc_dot(&graph, &sizes, g.data(), h.data(), dots.data()));
        expect("grad_alpha", found_alpha, grad_alpha);
        expect("grad_h", found_h, grad_h);
        expect("dot", dots, grad_alpha);
        sizes.shape = summed ? MIMOGC_SHARED_TO_HEADS : MIMOGC_HEADS_TO_HEADS;
        expect_done(mimogc_sum(&graph, &sizes, 1, alpha.data(), g.data(), found_h.data()));
        expect("transposed sum", found_h, grad_h);
    }

    const auto att = random_values<T>(2 * K * K * C), edge = random_values<T>(E * K), bias = random_values<T>(C);
    const auto offset = random_values<T>(K);
    const double slope = 0.2;
    std::vector<double> st(N * 2 * K), wanted(N * C);
    for (int64_t n = 0; n < N; n++)
        for (int64_t m = 0; m < 2 * K; m++)
            for (int64_t q = 0; q < K * C; q++) {
                const double value = h[n * K * C + q];
                st[n * 2 * K + m] += (value > 0 ? value : slope * value) * att[m * K * C + q];
            }
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) st[n * 2 * K + k] += offset[k];
    for (int64_t q = 0; q < N * C; q++) wanted[q] = bias[q % C];
    for (int64_t e = 0; e < E; e++)
        for (int64_t k = 0; k < K; k++) {
            const double a = std::tanh(st[at.dst[e] * 2 * K + k] + st[at.src[e] * 2 * K + K + k] + edge[e * K + k]);
            for (int64_t c = 0; c < C; c++) wanted[at.dst[e] * C + c] += a * h[(at.src[e] * K + k) * C + c];
        }
    std::vector<T> scores(N * 2 * K), out(N * C);
    std::vector<T> given(h);
    sizes.shape = MIMOGC_HEADS_TO_SUM;
    const MimogcWeights weights = {nullptr, att.data(), offset.data(), edge.data(), bias.data()};
    expect_done(mimogc_layer(&graph, &sizes, &weights, nullptr, given.data(), scores.data(), out.data(), nullptr));
    expect("scores", scores, st);
    expect("layer", out, wanted);
    std::vector<T> derivative(N * C);
    expect_done(
        mimogc_layer(&graph, &sizes, &weights, nullptr, given.data(), scores.data(), out.data(), derivative.data()));
    std::vector<double> slopes(N * C);
    for (int64_t q = 0; q < N * C; q++) {
        const double z = wanted[q], below = 0.5 * std::erfc(-z * std::sqrt(0.5));
        slopes[q] = below + z * std::exp(-0.5 * z * z) * std::sqrt(0.5 / std::acos(-1.0));
        wanted[q] = z * below;
    }
    expect("activated layer", out, wanted);
    expect("derivative of the activation", derivative, slopes);

    // Its gradients are compared with autograd by the Python tests; here they only have to stay inside their buffers.
    const auto g = random_values<T>(N * C);
    std::vector<T> grad_edge(E * K), grad_h(N * K * C), grad_att(2 * K * K * C);
    const MimogcGradients gradients = {nullptr, grad_h.data(),    nullptr, grad_att.data(),
                                       nullptr, grad_edge.data(), nullptr};
    for (bool activated : {false, true})
        expect_done(mimogc_layer_grad(&graph, &sizes, &weights, nullptr, h.data(), scores.data(),
                                      activated ? derivative.data() : nullptr, g.data(), &gradients));
    if (K * C >= 32) {
        check_products<T>(at, K, C, threads);
        check_classes<T>(at, K, C, threads);
    }
    const auto q = random_values<T>(N * K * C), a = random_values<T>(K * C);
    std::vector<T> pairs(E * K), grad_q(N * K * C), grad_a(K * C);
    const int64_t types = 3;
    std::vector<int64_t> kinds(E);
    for (int64_t e = 0; e < E; e++) kinds[e] = e % types;
    const auto table = random_values<T>(types * K * C);
    std::vector<T> grad_table(types * K * C), received(N * types * K);
    for (bool typed : {false, true}) {
        const MimogcPairs ends = {h.data(),
                                  q.data(),
                                  a.data(),
                                  typed ? table.data() : nullptr,
                                  kinds.data(),
                                  types,
                                  typed ? received.data() : nullptr};
        expect_done(mimogc_attention(&graph, &sizes, &ends, typed ? x.data() : nullptr, pairs.data(), out.data()));
        expect_done(mimogc_attention_grad(&graph, &sizes, &ends, pairs.data(), g.data(), grad_h.data(), grad_q.data(),
                                          grad_a.data(), typed ? grad_table.data() : nullptr));
        MimogcGraph alike = graph;  // one end for both, and some targets of one parent
        std::vector<int32_t> parents(N);
        for (int64_t i = 0; i < N; i++) parents[i] = int32_t(i / 2);
        MimogcPairs both = ends;
        both.target = h.data();
        for (const int32_t* parent : {(const int32_t*)nullptr, (const int32_t*)parents.data()}) {
            alike.parent = parent;
            expect_done(mimogc_attention(&alike, &sizes, &both, nullptr, pairs.data(), out.data()));
            expect_done(mimogc_attention_grad(&alike, &sizes, &both, pairs.data(), g.data(), grad_h.data(),
                                              grad_h.data(), grad_a.data(), typed ? grad_table.data() : nullptr));
        }
        expect_done(mimogc_pair_scores(&graph, &sizes, &ends, pairs.data()));
        expect_done(
            mimogc_pair_scores_grad(&graph, &sizes, &ends, pairs.data(), grad_h.data(), grad_q.data(), grad_a.data()));
    }
    MimogcWeights typed = weights;
    const auto type_scores = random_values<T>(types * K);
    typed.edge = type_scores.data();  // one row for each type, in the place of one for each edge
    typed.kinds = kinds.data(), typed.types = types, typed.received = received.data();
    std::vector<T> grad_types(types * K);
    MimogcGradients of_types = gradients;
    of_types.edge = grad_types.data();
    expect_done(mimogc_layer(&graph, &sizes, &typed, nullptr, given.data(), scores.data(), out.data(), nullptr));
    expect_done(
        mimogc_layer_grad(&graph, &sizes, &typed, nullptr, h.data(), scores.data(), nullptr, g.data(), &of_types));
    std::vector<T> weighted(E * K);
    expect_done(mimogc_softmax(&graph, &sizes, pairs.data(), weighted.data()));
    expect_done(mimogc_softmax_grad(&graph, &sizes, weighted.data(), pairs.data(), weighted.data()));
    std::vector<int32_t> parent(N);
    for (int64_t i = 0; i < N; i++) parent[i] = int32_t(i / 2);
    std::vector<T> top(N * C), back(N * C), back_given(N * C), back_best(N * C);
    std::vector<uint8_t> chosen(N * C);
    for (bool alike : {false, true}) {
        const MimogcJoin join = {
            N, alike ? (N + 1) / 2 : N, 0.5, alike ? parent.data() : nullptr, g.data(), g.data(), chosen.data()};
        expect_done(mimogc_join(&sizes, &join, g.data(), derivative.data(), out.data(), top.data()));
        expect_done(mimogc_join_grad(&sizes, &join, derivative.data(), nullptr, g.data(), back.data(),
                                     back_given.data(), back_best.data()));
    }
    const MimogcScores terms = {scores.data(), scores.data() + K, edge.data(), 2 * K};
    expect_done(mimogc_tanh_sum(&graph, &sizes, &terms, 0, N, h.data(), out.data()));
    std::vector<T> grad_s(N * 2 * K), grad_t(N * 2 * K);
    expect_done(mimogc_tanh_sum_grad(&graph, &sizes, &terms, h.data(), g.data(), grad_s.data(), grad_t.data(),
                                     grad_h.data(), grad_edge.data()));
    if (N > 1) {
        std::vector<T> gathered((N - 1) * K * C);
        sizes.shape = MIMOGC_SHARED_TO_HEADS;
        expect_done(mimogc_tanh_sum(&graph, &sizes, &terms, 1, N - 1, x.data(), gathered.data()));
    }
}

}  // namespace

int main() {
    const std::vector<std::pair<int64_t, int64_t>> sizes = {{0, 0}, {1, 0}, {1, 3}, {5, 0}, {7, 20}, {40, 600}};
    const std::vector<std::pair<int64_t, int64_t>> widths = {{1, 1}, {4, 1}, {2, 3}, {4, 8}, {3, 17}, {6, 33}, {4, 70}};
    int cases = 0;
    for (auto [N, E] : sizes)
        for (bool loops : {false, true}) {
            std::vector<int64_t> src(E), dst(E);
            for (int64_t e = 0; e < E; e++) {
                src[e] = generator() % N;
                dst[e] = e % 3 ? generator() % N : N - 1;  // a hub at the last row
            }
            const Sorted graph = sorted(N, src, dst, loops);
            for (auto [K, C] : widths)
                for (int threads : {1, 2}) {
                    check<float>(graph, K, C, threads);
                    check<double>(graph, K, C, threads);
                    cases += 2;
                }
            for (auto [F, C] : {std::pair<int64_t, int64_t>{32, 32}, {33, 49}, {71, 32}})
                for (int threads : {1, 2}) {
                    check_gin<float>(graph, F, C, threads);
                    check_gin<double>(graph, F, C, threads);
                    check_scaled<float>(graph, F, 1, C, threads, threads == 2);
                    check_scaled<double>(graph, F, 3, C, threads, threads == 1);
                    cases += 4;
                }
        }
    const std::vector<int64_t> good = {0, 1}, large = {0, 2}, negative = {-1, 0};
    std::vector<int32_t> out(6 + 8);
    if (mimogc_sort_edges(good.data(), large.data(), 8, 2, 2, 2, 0, 1, out.data()) != -2) failures++;
    if (mimogc_sort_edges(negative.data(), good.data(), 8, 2, 2, 2, 0, 1, out.data()) != -1) failures++;
    std::printf("%d cases, %d failures\n", cases, failures);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
