// Managed memory: both sides write by turns, also to neighbouring bytes, in
// several allocations, with copies and memsets, and functions of the host. It
// prints what it computes.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                        \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

struct List {
    int value;
    List *next;
};

__global__ void odd(unsigned char *data, int n) {
    int at = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1;
    if (at < n) data[at] = data[at] + data[at - 1];
}

__global__ void walk(List *list, int *sum) {
    for (; list; list = list->next) {
        *sum += list->value;
        list->value = -list->value;
    }
}

static void halve(void *data) {
    int *sum = static_cast<int *>(data);
    *sum /= 2;
}

int main() {
    const int n = 10001;
    unsigned char *bytes;
    CHECK(cudaMallocManaged(&bytes, n));
    unsigned all = 0;
    for (int round = 0; round < 5; round++) {
        // The host's bytes are the even ones.
        for (int at = 0; at < n; at += 2) bytes[at] = at * 7 + round;
        odd<<<(n / 2 + 127) / 128, 128>>>(bytes, n);
        CHECK(cudaDeviceSynchronize());
        for (int at = 0; at < n; at++) all = all * 33 + bytes[at];
    }
    printf("bytes %08x\n", all);

    List *first = nullptr;
    for (int at = 1; at <= 20; at++) {
        List *next;
        CHECK(cudaMallocManaged(&next, sizeof(List)));
        *next = {at, first};
        first = next;
    }
    int *sum;
    CHECK(cudaMallocManaged(&sum, 4));
    *sum = 1000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    walk<<<1, 1, 0, stream>>>(first, sum);
    CHECK(cudaStreamSynchronize(stream));
    printf("sum %d first %d\n", *sum, first->value);
    CHECK(cudaLaunchHostFunc(stream, halve, sum));
    walk<<<1, 1, 0, stream>>>(first, sum);
    CHECK(cudaStreamSynchronize(stream));
    printf("sum %d first %d\n", *sum, first->value);

    // Copies and memsets take it for device memory, and see what the host wrote.
    unsigned char *device, back[64];
    CHECK(cudaMalloc(&device, 64));
    memset(bytes, 3, 64);
    CHECK(cudaMemcpy(device, bytes, 64, cudaMemcpyDefault));
    CHECK(cudaMemset(bytes, 9, 16));
    CHECK(cudaDeviceSynchronize());
    bytes[0] = 1;
    CHECK(cudaMemcpy(back, device, 64, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(bytes + 32, back, 8, cudaMemcpyHostToDevice));
    printf("%d %d %d %d %d\n", back[63], bytes[0], bytes[15], bytes[16], bytes[39]);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, bytes + 100));
    printf("type %d same %d\n", attributes.type, attributes.hostPointer == attributes.devicePointer);
    while (first) {
        List *next = first->next;
        CHECK(cudaFree(first));
        first = next;
    }
    CHECK(cudaFree(bytes));
    // Its addresses are used again.
    CHECK(cudaMallocManaged(&bytes, n));
    memset(bytes, 1, n);
    odd<<<(n / 2 + 127) / 128, 128>>>(bytes, n);
    CHECK(cudaDeviceSynchronize());
    int set = 0;
    for (int at = 0; at < n; at++) set += bytes[at];
    printf("set %d\n", set);
    return 0;
}
