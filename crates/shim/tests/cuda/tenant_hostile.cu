// A tenant that reads and writes all that it can: near its allocations, far from
// them, where partitions of others lie, misaligned, by traps and assertions.
//
// hostile write ROUNDS    stores through addresses that are not its own
// hostile read            counts bytes that others left in its partition
// hostile hold            allocates, writes, and then launches for ever
// hostile trap            reaches a trap
// hostile awaited         a thread reaches a trap, others wait for it in a loop

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

/// First partition of a manager, and the distance to the next.
const uint64_t FIRST = 0x200000000000;
const uint64_t NEXT = 76ull << 30;

__global__ void scatter(char *own, uint64_t seed) {
    uint64_t state = seed + threadIdx.x * 0x9e3779b97f4a7c15;
    for (int round = 0; round < 64; round++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        uint64_t noise = state >> 16;
        uint64_t partition = FIRST + noise % 8 * NEXT + (36ull << 30);
        uint64_t at = 0;
        switch (state >> 60) {
        case 0: at = noise; break;                                        // anywhere
        case 1: at = (uint64_t)own + 4096 + noise % 4096; break;          // past the end
        case 2: at = (uint64_t)own - noise % 4096; break;                 // before the start
        case 3: at = 0 - noise % 4096; break;                             // wraps
        case 4: at = noise % 4096; break;                                 // null
        default: at = partition + (64 << 20) + noise % (1 << 20); break;  // other tenants
        }
        if (state & 1) {
            *(volatile char *)at = 0x66;
        } else {
            *(volatile uint64_t *)at = 0x6666666666666666;  // misaligned, too
        }
    }
}

__global__ void count(const unsigned char *own, uint64_t bytes, unsigned long long *found) {
    unsigned long long mine = 0;
    for (uint64_t at = blockIdx.x * blockDim.x + threadIdx.x; at < bytes; at += gridDim.x * blockDim.x) {
        mine += own[at] != 0;
    }
    atomicAdd(found, mine);
}

__global__ void spin(volatile char *own) {
    while (own[threadIdx.x] != 1) {
    }
}

__global__ void fall() { asm volatile("trap;"); }

__global__ void fall_awaited(volatile char *own) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        asm volatile("trap;");
    }
    while (own[0] != 1) {
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "write";
    char *own;
    if (cudaMalloc(&own, 4096) != cudaSuccess) {
        return 1;
    }
    if (!strcmp(what, "write")) {
        for (int round = 0; round < atoi(argv[2]); round++) {
            scatter<<<2, 64>>>(own, 77 + round);
        }
        printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    } else if (!strcmp(what, "read")) {
        unsigned long long *found, sum = 0;
        cudaMalloc(&found, 8);
        cudaMemset(found, 0, 8);
        // Behind its own allocations: memory that it never asked for.
        count<<<8, 128>>>((unsigned char *)own + 8192, 16 << 20, found);
        cudaMemcpy(&sum, found, 8, cudaMemcpyDeviceToHost);
        printf("%llu\n", sum);
    } else if (!strcmp(what, "trap")) {
        fall<<<1, 32>>>();
        printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
        printf("%s\n", cudaGetErrorString(cudaMemset(own, 0, 16)));
    } else if (!strcmp(what, "awaited")) {
        cudaMemset(own, 0, 4096);
        cudaStream_t stream;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaEvent_t over;
        cudaEventCreate(&over);
        fall_awaited<<<2, 64, 0, stream>>>(own);
        cudaEventRecord(over, stream);
        printf("%s\n", cudaGetErrorString(cudaEventSynchronize(over)));
        printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    } else if (!strcmp(what, "spin")) {
        cudaMemset(own, 0, 4096);
        cudaDeviceSynchronize();
        for (int launch = 0; launch < 20; launch++) {
            spin<<<8, 64>>>(own);
        }
        printf("spinning\n");
        fflush(stdout);
        printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    } else {
        char *all;
        cudaMalloc(&all, 16 << 20);
        cudaMemset(all, 0x77, 16 << 20);
        cudaDeviceSynchronize();
        printf("holding\n");
        fflush(stdout);
        for (uint64_t round = 0;; round++) {
            scatter<<<2, 64>>>(own, round);
        }
    }
    return 0;
}
