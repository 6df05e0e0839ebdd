// What every case shares: which twin this is, checked CUDA calls, and output
// that is the same on every device.
//
// Cases of the group `global` are compiled twice, with -DBAD=1 for the twin
// that has the bug. All others are one program, and learn from its arguments
// which twin they are: `const int bad = is_bad(argc, argv);`. The other twin
// comes as close to the edge as is legal. Both check each CUDA call, print a
// digest of their buffers and exit with 0.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef BAD
constexpr int bad = BAD;
#endif

// Whether the program was started as `PROGRAM bad ...`.
inline bool is_bad(int argc, char **argv) { return argc > 1 && !std::strcmp(argv[1], "bad"); }

// Whether the program was started as `PROGRAM good|bad annotated`.
inline bool is_annotated(int argc, char **argv) {
    return argc > 2 && !std::strcmp(argv[2], "annotated");
}

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t status_ = (call);                                          \
        if (status_ != cudaSuccess) {                                          \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                         cudaGetErrorString(status_));                         \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

// A call that is wrong in the bad twin: whatever it answers is printed to
// stderr, which does not count as output, and the program goes on.
#define TRY(call)                                                                          \
    do {                                                                                   \
        cudaError_t status_ = (call);                                                      \
        if (status_ != cudaSuccess) {                                                      \
            std::fprintf(stderr, "CUDA error: %s: %s\n", #call, cudaGetErrorString(status_)); \
            (void)cudaGetLastError();                                                      \
        }                                                                                  \
    } while (0)

// Launch errors, then errors of the kernel itself.
#define FINISH()                        \
    do {                                \
        CHECK(cudaGetLastError());      \
        CHECK(cudaDeviceSynchronize()); \
    } while (0)

// Device memory holding `host`'s elements.
template <typename T>
T *upload(const std::vector<T> &host) {
    T *device = nullptr;
    CHECK(cudaMalloc(&device, host.size() * sizeof(T)));
    CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

// Device memory of `count` elements, every byte zero.
template <typename T>
T *zeroed(size_t count) {
    T *device = nullptr;
    CHECK(cudaMalloc(&device, count * sizeof(T)));
    CHECK(cudaMemset(device, 0, count * sizeof(T)));
    return device;
}

// 0, 1, 2, ...
template <typename T>
std::vector<T> counting(size_t count) {
    std::vector<T> values(count);
    for (size_t i = 0; i < count; i++) values[i] = static_cast<T>(i);
    return values;
}

// FNV-1a over bytes: equal digests, equal buffers.
inline unsigned long long digest_bytes(const void *data, size_t bytes) {
    unsigned long long hash = 1469598103934665603ull;
    for (size_t i = 0; i < bytes; i++) {
        hash ^= static_cast<const unsigned char *>(data)[i];
        hash *= 1099511628211ull;
    }
    return hash;
}

// Prints the digest of `count` elements of device memory.
template <typename T>
void print_digest(const char *name, const T *device, size_t count) {
    std::vector<unsigned char> host(count * sizeof(T));
    CHECK(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost));
    std::printf("%s %016llx\n", name, digest_bytes(host.data(), host.size()));
}
