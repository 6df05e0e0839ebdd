// bug: a table with a pointer to memory from malloc also holds one to a buffer that was freed
// run: cpu-pageable=on
// expect: rule=use-after-free function=gather size=400
#include "case.h"

struct Table {
    const int *rows[2];
};

__global__ void gather(const Table *table, const int *direct, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = table->rows[0][i] + direct[i] + table->rows[1][i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 100;
    int device = 0, pageable = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device));
    // Where the device cannot access it, managed memory stands in.
    int *host = nullptr;
    if (pageable) host = static_cast<int *>(std::malloc(2 * n * sizeof(int)));
    else CHECK(cudaMallocManaged(&host, 2 * n * sizeof(int)));
    for (int i = 0; i < 2 * n; i++) host[i] = i;
    int *row = upload(counting<int>(n));
    Table *table = upload(std::vector<Table>{Table{{host + n, row}}});
    int *out = zeroed<int>(n);
    if (bad) CHECK(cudaFree(row));
    gather<<<1, 128>>>(table, host, out, n);
    FINISH();
    // Each pointer again, from nothing but the device's memory.
    gather<<<1, 128>>>(table, host + 5, out, n);
    FINISH();
    print_digest("out", out, n);
    if (pageable) std::free(host);
    else CHECK(cudaFree(host));
    if (!bad) CHECK(cudaFree(row));
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
}
