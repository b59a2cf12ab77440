// Calls every kernel on graphs where indices go wrong, in buffers of the exact size, and compares with plain loops.
// Built with AddressSanitizer and UndefinedBehaviorSanitizer by sanitize.py: a read or write outside a buffer aborts.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "mimogc.h"

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

template <class T>
void expect(const char* what, const std::vector<T>& found, const std::vector<double>& wanted) {
    const double tolerance = sizeof(T) == 4 ? 2e-4 : 1e-10;
    for (size_t q = 0; q < wanted.size(); q++) {
        if (!(std::abs(found[q] - wanted[q]) <= tolerance * (1 + std::abs(wanted[q])))) {
            std::printf("%s[%zu]: %g instead of %g\n", what, q, double(found[q]), wanted[q]);
            failures++;
            return;
        }
    }
}

struct Sorted {
    int64_t N, E;
    std::vector<int32_t> rowptr, colptr, col, row, edge;
    std::vector<int64_t> src, dst;  // of the sorted edges
};

Sorted sorted(int64_t N, const std::vector<int64_t>& src, const std::vector<int64_t>& dst, bool loops) {
    const int64_t capacity = int64_t(src.size()) + (loops ? N : 0);
    std::vector<int32_t> out(2 * (N + 1) + 4 * capacity);
    const int64_t E = mimogc_sort_edges(src.data(), dst.data(), src.size(), N, N, loops, out.data());
    Sorted graph{N, E, {}, {}, {}, {}, {}, {}, {}};
    auto part = out.begin();
    graph.rowptr.assign(part, part + N + 1), part += N + 1;
    graph.colptr.assign(part, part + N + 1), part += N + 1;
    graph.col.assign(part, part + E), part += capacity;
    part += capacity;  // position
    graph.row.assign(part, part + E), part += capacity;
    graph.edge.assign(part, part + E);
    for (int64_t i = 0; i < N; i++)
        for (int32_t e = graph.rowptr[i]; e < graph.rowptr[i + 1]; e++) {
            graph.src.push_back(graph.col[e]);
            graph.dst.push_back(i);
        }
    return graph;
}

// The four functions of one type, under one name.
template <class T>
struct Api;
#define API(T, S)                                                       \
    template <>                                                         \
    struct Api<T> {                                                     \
        static constexpr auto sum = mimogc_sum_##S;                     \
        static constexpr auto dot = mimogc_dot_##S;                     \
        static constexpr auto grad = mimogc_sum_grad_##S;               \
        static constexpr auto tanh = mimogc_tanh_sum_##S;               \
        static constexpr auto pairs = mimogc_pair_scores_##S;           \
        static constexpr auto pairs_back = mimogc_pair_scores_grad_##S; \
        static constexpr auto layer = mimogc_layer_##S;                 \
        static constexpr auto back = mimogc_layer_grad_##S;             \
        static constexpr auto readout = mimogc_readout_##S;             \
        static constexpr auto readout_back = mimogc_readout_grad_##S;   \
        static constexpr auto adam = mimogc_adam_##S;                   \
    };
API(float, f32)
API(double, f64)

// The layer with the products of its own: h, and the gradients that are made of those to h and to the output.
template <class T>
void check_products(const Sorted& at, int64_t K, int64_t C, int threads) {
    const int64_t N = at.N, E = at.E, width = K * C;
    const T slope = T(0.2);
    for (int64_t F : {32, 33, 71}) {
        const auto x = random_values<T>(N * F), w = random_values<T>(width * F), g = random_values<T>(N * C);
        auto att = random_values<T>(2 * K * width);
        for (T& value : att) value /= T(100);
        std::vector<T> h(N * width), st(N * 2 * K), out(N * C), derivative(N * C);
        const auto offset = random_values<T>(K);
        Api<T>::layer(N, N, at.rowptr.data(), at.col.data(), nullptr, F, K, C, slope, x.data(), w.data(), att.data(),
                      offset.data(), nullptr, nullptr, h.data(), st.data(), out.data(), derivative.data(), threads);
        std::vector<T> grad_score(E * K), grad_h(N * width), grad_x(N * F);
        std::vector<T> grad_w(width * F), grad_att(2 * K * width), grad_offset(K), grad_bias(C);
        Api<T>::back(N, N, at.colptr.data(), at.row.data(), at.edge.data(), at.rowptr.data(), nullptr, F, K, C, slope,
                     x.data(), w.data(), h.data(), att.data(), nullptr, st.data(), g.data(), derivative.data(),
                     grad_score.data(), grad_h.data(), grad_x.data(), grad_w.data(), grad_att.data(),
                     grad_offset.data(), grad_bias.data(), threads);
        std::vector<double> wanted_h(N * width), wanted_x(N * F), wanted_w(width * F), wanted_bias(C);
        std::vector<double> wanted_offset(K);
        for (int64_t q = 0; q < E * K; q++) wanted_offset[q % K] += grad_score[q];
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
    }
}

// A layer on classes of nodes that are alike gives what the layer on all nodes gives, and the same gradients.
template <class T>
void check_classes(const Sorted& at, int64_t K, int64_t C, int threads) {
    const int64_t N = at.N, E = at.E, F = 33, R = 3, width = K * C, M = 2 * K;
    const T slope = T(0.2);
    std::vector<int64_t> index(N), sizes(4);
    for (int64_t i = 0; i < N; i++) index[i] = i % R;
    const int64_t capacity = 2 * (2 * N + 2 + 3 * E + std::max(N, R));
    std::vector<int32_t> links(capacity);
    const auto classes = [&](int64_t most) {
        return mimogc_classes(N, at.rowptr.data(), at.col.data(), R, index.data(), 2, most, sizes.data(), links.data());
    };
    if (classes(-1) != 1 || sizes[0] != N || sizes[1] != E) failures++;
    if (classes(N + R) != 2 || sizes[2] != N || sizes[3] != E) failures++;
    const int64_t n = sizes[0], m = sizes[1];
    links.assign(2 * n + 1 + R + 1 + 3 * m + 2 * N + 1 + n + 1 + 3 * E, 0);  // no more than is needed
    classes(N + R);
    const int32_t *parent = links.data(), *rowptr = parent + n, *colptr = rowptr + n + 1, *col = colptr + R + 1;
    const int32_t *row = col + m, *edge = row + m, *class_of = edge + m;

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
    Api<T>::layer(N, N, at.rowptr.data(), at.col.data(), nullptr, F, K, C, slope, x.data(), w.data(), att.data(),
                  offset.data(), nullptr, nullptr, h.data(), st.data(), out.data(), slopes.data(), threads);
    Api<T>::layer(R, n, rowptr, col, parent, F, K, C, slope, table.data(), w.data(), att.data(), offset.data(), nullptr,
                  nullptr, h1.data(), st1.data(), out1.data(), slopes1.data(), threads);
    std::vector<T> spread(N * C);
    for (int64_t q = 0; q < N * C; q++) spread[q] = out1[class_of[q / C] * C + q % C];
    expect("layer on classes", spread, {out.begin(), out.end()});

    std::vector<T> grad_score(E * K), grad_x(N * F), grad_w(width * F), grad_att(M * width);
    std::vector<T> grad_x1(R * F), grad_w1(width * F), grad_att1(M * width), grad_offset(K), grad_offset1(K);
    Api<T>::back(N, N, at.colptr.data(), at.row.data(), at.edge.data(), at.rowptr.data(), nullptr, F, K, C, slope,
                 x.data(), w.data(), h.data(), att.data(), nullptr, st.data(), g.data(), slopes.data(),
                 grad_score.data(), nullptr, grad_x.data(), grad_w.data(), grad_att.data(), grad_offset.data(), nullptr,
                 threads);
    Api<T>::back(R, n, colptr, row, edge, rowptr, parent, F, K, C, slope, table.data(), w.data(), h1.data(), att.data(),
                 nullptr, st1.data(), class_g.data(), slopes1.data(), nullptr, nullptr, grad_x1.data(), grad_w1.data(),
                 grad_att1.data(), grad_offset1.data(), nullptr, threads);
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

// The end of a regressor: its value; the gradients are compared with autograd by the Python tests.
template <class T>
void check_readout(int64_t N, int64_t B, int64_t C, int64_t H) {
    const auto h = random_values<T>(N * C), w = random_values<T>(H * C), bias = random_values<T>(H);
    const auto v = random_values<T>(H), offset = random_values<T>(1), g = random_values<T>(B);
    std::vector<int64_t> owner(N);
    for (int64_t n = 0; n < N; n++) owner[n] = B - 1 - n % B;
    std::vector<T> pooled(B * C), hidden(B * H), derivative(B * H), out(B), grad_h(N * C), grad_w(H * C), grad_bias(H);
    std::vector<T> grad_v(H), grad_offset(1);
    if (Api<T>::readout(N, B, C, H, h.data(), owner.data(), w.data(), bias.data(), v.data(), offset.data(),
                        pooled.data(), hidden.data(), derivative.data(), out.data()) != N)
        failures++;
    std::vector<double> wanted(B, offset[0]);
    for (int64_t b = 0; b < B; b++)
        for (int64_t q = 0; q < H; q++) {
            double z = bias[q];
            for (int64_t n = 0; n < N; n++)
                for (int64_t c = 0; owner[n] == b && c < C; c++) z += double(h[n * C + c]) * w[q * C + c];
            wanted[b] += v[q] * z * 0.5 * std::erfc(-z * std::sqrt(0.5));
        }
    expect("readout", out, wanted);
    Api<T>::readout_back(N, B, C, H, owner.data(), w.data(), v.data(), pooled.data(), hidden.data(), derivative.data(),
                         g.data(), grad_h.data(), grad_w.data(), grad_bias.data(), grad_v.data(), grad_offset.data());
    if (N == 0) return;
    owner[N - 1] = B;
    if (Api<T>::readout(N, B, C, H, h.data(), owner.data(), w.data(), bias.data(), v.data(), offset.data(),
                        pooled.data(), hidden.data(), derivative.data(), out.data()) != -N)
        failures++;
}

// One step of Adam, the gradient clipped to half its norm; the second tensor has none.
template <class T>
void check_adam(int64_t n, int threads) {
    const std::vector<int64_t> sizes = {n, 3};
    const auto gradient = random_values<T>(n);
    const T* gradients[] = {gradient.data(), nullptr};
    std::vector<T> weight(n + 3, T(1)), mean(n + 3), square(n + 3);
    double norm = 0;
    for (T value : gradient) norm += double(value) * value;
    Api<T>::adam(2, sizes.data(), gradients, std::sqrt(norm) / 2, 0.1, 0.9, 0.999, 1e-8, 1, weight.data(), mean.data(),
                 square.data(), threads);
    std::vector<double> wanted(n + 3, 1.0);
    for (int64_t q = 0; q < n; q++) {
        const double g = gradient[q] / 2;
        wanted[q] -= 0.1 * g / (std::abs(g) + 1e-8);
    }
    expect("adam", weight, wanted);
}

template <class T>
void check(const Sorted& at, int64_t K, int64_t C, int threads) {
    const int64_t N = at.N, E = at.E;
    const auto alpha = random_values<T>(E * K), h = random_values<T>(N * K * C), x = random_values<T>(N * C);
    for (int32_t shape : {kHeadsToSum, kSharedToHeads, kHeadsToHeads}) {
        const auto& in = shape == kSharedToHeads ? x : h;
        const bool summed = shape == kHeadsToSum;
        std::vector<double> wanted(N * (summed ? 1 : K) * C);
        for (int64_t e = 0; e < E; e++)
            for (int64_t k = 0; k < K; k++)
                for (int64_t c = 0; c < C; c++) {
                    const int64_t from = shape == kSharedToHeads ? at.src[e] * C + c : (at.src[e] * K + k) * C + c;
                    const int64_t to = summed ? at.dst[e] * C + c : (at.dst[e] * K + k) * C + c;
                    wanted[to] += double(alpha[e * K + k]) * in[from];
                }
        std::vector<T> out(wanted.size());
        Api<T>::sum(N, at.rowptr.data(), at.col.data(), nullptr, K, C, shape, alpha.data(), in.data(), out.data(),
                    threads);
        expect("sum", out, wanted);
        if (shape == kSharedToHeads) continue;

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
        Api<T>::grad(N, at.colptr.data(), at.row.data(), at.edge.data(), K, C, shape, alpha.data(), g.data(), h.data(),
                     found_h.data(), found_alpha.data(), threads);
        Api<T>::dot(N, at.colptr.data(), at.row.data(), at.edge.data(), K, C, shape, g.data(), h.data(), dots.data(),
                    threads);
        expect("grad_alpha", found_alpha, grad_alpha);
        expect("grad_h", found_h, grad_h);
        expect("dot", dots, grad_alpha);
    }

    const auto att = random_values<T>(2 * K * K * C), u = random_values<T>(E * K), bias = random_values<T>(C);
    const auto offset = random_values<T>(K);
    const T slope = T(0.2);
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
            const double a = std::tanh(st[at.dst[e] * 2 * K + k] + st[at.src[e] * 2 * K + K + k] + u[e * K + k]);
            for (int64_t c = 0; c < C; c++) wanted[at.dst[e] * C + c] += a * h[(at.src[e] * K + k) * C + c];
        }
    std::vector<T> scores(N * 2 * K), out(N * C);
    std::vector<T> given(h);
    Api<T>::layer(N, N, at.rowptr.data(), at.col.data(), nullptr, 0, K, C, slope, nullptr, nullptr, att.data(),
                  offset.data(), u.data(), bias.data(), given.data(), scores.data(), out.data(), nullptr, threads);
    expect("scores", scores, st);
    expect("layer", out, wanted);
    std::vector<T> derivative(N * C);
    Api<T>::layer(N, N, at.rowptr.data(), at.col.data(), nullptr, 0, K, C, slope, nullptr, nullptr, att.data(),
                  offset.data(), u.data(), bias.data(), given.data(), scores.data(), out.data(), derivative.data(),
                  threads);
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
    std::vector<T> grad_score(E * K), grad_h(N * K * C), grad_att(2 * K * K * C);
    for (bool activated : {false, true})
        Api<T>::back(N, N, at.colptr.data(), at.row.data(), at.edge.data(), at.rowptr.data(), nullptr, 0, K, C, slope,
                     nullptr, nullptr, h.data(), att.data(), u.data(), scores.data(), g.data(),
                     activated ? derivative.data() : nullptr, grad_score.data(), grad_h.data(), nullptr, nullptr,
                     grad_att.data(), nullptr, nullptr, threads);
    if (K * C >= 32) {
        check_products<T>(at, K, C, threads);
        check_classes<T>(at, K, C, threads);
    }
    const auto q = random_values<T>(N * K * C), a = random_values<T>(K * C);
    std::vector<T> pairs(E * K), grad_q(N * K * C), grad_a(K * C);
    Api<T>::pairs(N, at.rowptr.data(), at.col.data(), K, C, slope, h.data(), q.data(), a.data(), pairs.data(), threads);
    Api<T>::pairs_back(N, N, at.rowptr.data(), at.col.data(), at.colptr.data(), at.row.data(), at.edge.data(), K, C,
                       slope, h.data(), q.data(), a.data(), pairs.data(), grad_h.data(), grad_q.data(), grad_a.data(),
                       threads);
    if (N > 1) {
        std::vector<T> gathered((N - 1) * K * C);
        Api<T>::tanh(1, N - 1, at.rowptr.data(), at.col.data(), K, C, kSharedToHeads, scores.data(), scores.data() + K,
                     2 * K, u.data(), x.data(), gathered.data(), threads);
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
        }
    for (int64_t N : {0, 1, 9})
        for (int64_t C : {1, 7, 20}) {
            check_readout<float>(N, 3, C, 11);
            check_readout<double>(N, 3, C, 11);
            cases += 2;
        }
    for (int64_t n : {0, 1, 17, 9000})
        for (int threads : {1, 2}) {
            check_adam<float>(n, threads);
            check_adam<double>(n, threads);
            cases += 2;
        }
    const std::vector<int64_t> good = {0, 1}, large = {0, 2}, negative = {-1, 0};
    std::vector<int32_t> out(6 + 8);
    if (mimogc_sort_edges(good.data(), large.data(), 2, 2, 2, 0, out.data()) != -2) failures++;
    if (mimogc_sort_edges(negative.data(), good.data(), 2, 2, 2, 0, out.data()) != -1) failures++;
    std::printf("%d cases, %d failures\n", cases, failures);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
