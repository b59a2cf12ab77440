// Counting sort of edges into CSR and CSC, linear in edges and nodes.
#include <vector>

#include "mimogc.h"

namespace {

// Turns counts at [1 .. n] into offsets at [0 .. n].
void accumulate(int32_t* counts, int64_t n) {
    for (int64_t i = 0; i < n; i++) counts[i + 1] += counts[i];
}

}  // namespace

int64_t mimogc_sort_edges(const int64_t* src, const int64_t* dst, int64_t num_edges, int64_t num_src, int64_t num_dst,
                          int32_t replace_loops, int32_t* out) {
    const int64_t loops = replace_loops ? (num_src < num_dst ? num_src : num_dst) : 0;
    const int64_t capacity = num_edges + loops;
    int32_t* rowptr = out;
    int32_t* colptr = rowptr + num_dst + 1;
    int32_t* col = colptr + num_src + 1;
    int32_t* position = col + capacity;
    int32_t* row = position + capacity;
    int32_t* edge = row + capacity;

    for (int64_t i = 0; i <= num_dst; i++) rowptr[i] = 0;
    for (int64_t j = 0; j <= num_src; j++) colptr[j] = 0;
    for (int64_t e = 0; e < num_edges; e++) {
        const int64_t j = src[e], i = dst[e];
        if (j < 0 || j >= num_src || i < 0 || i >= num_dst) return -1 - e;
        const bool keep = !replace_loops || i != j;
        rowptr[i + 1] += keep;
        colptr[j + 1] += keep;
    }
    for (int64_t i = 0; i < loops; i++) {
        rowptr[i + 1]++;
        colptr[i + 1]++;
    }
    accumulate(rowptr, num_dst);
    accumulate(colptr, num_src);
    const int64_t total = rowptr[num_dst];

    // By source: the place in the given order, -1 - i for the loop of node i.
    std::vector<int32_t> by_source(total), next(colptr, colptr + num_src);
    for (int64_t e = 0; e < num_edges; e++)
        if (!replace_loops || src[e] != dst[e]) by_source[next[src[e]]++] = int32_t(e);
    for (int64_t i = 0; i < loops; i++) by_source[next[i]++] = int32_t(-1 - i);

    // By destination, stable: within a row the sources ascend.
    next.assign(rowptr, rowptr + num_dst);
    for (int64_t j = 0; j < num_src; j++) {
        for (int64_t q = colptr[j]; q < colptr[j + 1]; q++) {
            const int32_t given = by_source[q];
            const int32_t slot = next[given < 0 ? -1 - given : dst[given]]++;
            col[slot] = int32_t(j);
            position[slot] = given < 0 ? -1 : given;
        }
    }

    // By source again, stable: within a column the destinations ascend.
    next.assign(colptr, colptr + num_src);
    for (int64_t i = 0; i < num_dst; i++) {
        for (int32_t p = rowptr[i]; p < rowptr[i + 1]; p++) {
            const int32_t slot = next[col[p]]++;
            row[slot] = int32_t(i);
            edge[slot] = p;
        }
    }
    return total;
}
