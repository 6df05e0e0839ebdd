// Reductions, scans and sorts of Thrust and CUB. They pick the parameters of
// their kernels on the host, by the architecture that the device code was
// compiled for, so that host and device must agree on which one that is.
#pragma once
#include "case.h"
#include <algorithm>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <numeric>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

inline std::vector<uint32_t> scattered(int n) {
    std::vector<uint32_t> values(n);
    for (int i = 0; i < n; i++) values[i] = (uint32_t(i) * 2654435761u) >> 12;
    return values;
}

inline int thrust_case(int n) {
    std::vector<uint32_t> host = scattered(n);
    thrust::device_vector<uint32_t> device(host.begin(), host.end());
    const uint64_t sum = thrust::reduce(device.begin(), device.end(), uint64_t(0));
    thrust::sort(device.begin(), device.end());
    thrust::device_vector<uint32_t> scanned(n);
    thrust::inclusive_scan(device.begin(), device.end(), scanned.begin());
    std::vector<uint32_t> sorted(n), sums(n);
    thrust::copy(device.begin(), device.end(), sorted.begin());
    thrust::copy(scanned.begin(), scanned.end(), sums.begin());
    const uint64_t expected = std::accumulate(host.begin(), host.end(), uint64_t(0));
    std::sort(host.begin(), host.end());
    int wrong = (sum != expected) + (sorted != host);
    std::partial_sum(host.begin(), host.end(), host.begin());
    wrong += sums != host;
    std::printf("%d values: sum %llu, last %u\n", n, (unsigned long long)sum, sums.back());
    return wrong;
}

inline int cub_case(int n) {
    std::vector<uint32_t> keys = scattered(n);
    std::vector<int> values(n);
    std::iota(values.begin(), values.end(), 0);
    uint32_t *keys_in = upload(keys), *keys_out = zeroed<uint32_t>(n);
    int *values_in = upload(values), *values_out = zeroed<int>(n);
    size_t bytes = 0;
    CHECK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys_in, keys_out, values_in, values_out, n));
    void *workspace = nullptr;
    CHECK(cudaMalloc(&workspace, bytes));
    CHECK(cub::DeviceRadixSort::SortPairs(workspace, bytes, keys_in, keys_out, values_in, values_out, n));
    FINISH();
    std::stable_sort(values.begin(), values.end(), [&](int a, int b) { return keys[a] < keys[b]; });
    std::vector<int> got(n);
    CHECK(cudaMemcpy(got.data(), values_out, n * sizeof(int), cudaMemcpyDeviceToHost));
    print_digest("pairs", values_out, n);
    CHECK(cudaFree(keys_in));
    CHECK(cudaFree(keys_out));
    CHECK(cudaFree(values_in));
    CHECK(cudaFree(values_out));
    CHECK(cudaFree(workspace));
    return got != values;
}

inline int all_cases() {
    const int wrong = thrust_case(5) + thrust_case(20011) + cub_case(3001);
    std::printf("%s\n", wrong ? "FAILED" : "all as on the host");
    return wrong;
}
