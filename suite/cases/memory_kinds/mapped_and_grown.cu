// bug: a buffer grows by mapping more behind it, and is written past its new end
// expect: rule=global-out-of-bounds-write function=fill
#include "mapped.h"

// The pointer is found in memory, where it lies since before the buffer grew.
__global__ void fill(int *const *table, const long long *count) {
    int *data = *table;
    for (long long i = threadIdx.x; i < *count; i += 4096) data[i] = static_cast<int>(i);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Mapped memory(3);
    memory.map(0);
    int *data = reinterpret_cast<int *>(memory.base);
    int **table = upload(std::vector<int *>{data});
    long long *count = upload(std::vector<long long>{0});
    for (int chunks = 1; chunks <= 2; chunks++) {
        if (chunks == 2) memory.map(1);
        long long n = chunks * memory.size / sizeof(int) + (bad && chunks == 2);
        CHECK(cudaMemcpy(count, &n, sizeof n, cudaMemcpyHostToDevice));
        fill<<<1, 128>>>(table, count);
        FINISH();
        print_digest("data", data, 4096);
    }
    memory.unmap(1);
    memory.unmap(0);
    CHECK(cudaFree(table));
    CHECK(cudaFree(count));
}
