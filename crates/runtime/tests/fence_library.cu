// Kernels that print and allocate. The words of a launch decide what.

#include <cstdio>
#include <cstdlib>

extern "C" __global__ void prints(int *out, const long *w) {
    int i = threadIdx.x;
    char word[8] = {'a', 'b', 'c', (char)('d' + i), 'e', 0};
    out[i] = printf("%d:%s %5.2f|%-4c|%lld %*d %u %.4s %.2s %x %p %%\n", i, word, i * 1.25, 'x', 1ll << 40, 6, -i, (int)w[0],
                    "string", word, 0xbeef + i, (void *)w[1]);
    out[i + 8] = printf("no arguments %%, %hhd %*zd %.*s, %.3f\n", i * 0.5);
    if (i == w[2]) printf("%s and %d\n", word + w[3], 5);
}

// Format and string are wherever the launch says.
extern "C" __global__ void forges(int *out, const long *w) {
    printf((const char *)w[0], (const char *)w[1], (const char *)w[2], w[3]);
    printf("%s %*d %s", (const char *)w[1], (int)w[3], 7, (const char *)w[2]);
    out[threadIdx.x] = 1;
}

struct List {
    List *next;
    int value;
};

extern "C" __global__ void allocates(int *out, const long *w) {
    List *list = 0;
    int n = (int)w[0] & 15;
    for (int i = 0; i <= n; i++) {
        List *first = (List *)malloc(sizeof(List) + 40 * i);
        if (!first) break;
        first->next = list;
        first->value = i * 3 + threadIdx.x;
        list = first;
    }
    // Every block is the thread's own, and holds what it stored.
    int sum = 0, count = 0;
    for (List *at = list; at; at = at->next, count++) sum = sum * 5 + at->value;
    out[threadIdx.x] = sum;
    out[threadIdx.x + 8] = count;
    while (list) {
        List *next = list->next;
        free(list);
        list = next;
    }
    free(0);
    out[threadIdx.x + 16] = malloc((size_t)1 << 45) == 0;
}

// Writes a word anywhere, allocates, writes to the block, frees anything.
extern "C" __global__ void misuses(int *out, const long *w) {
    *(long *)w[0] = w[1];
    long *block = (long *)malloc(w[2]);
    block[0] = w[3];
    block[2] = w[3];
    long *again = (long *)malloc(24);
    again[1] = 7;
    free((void *)w[3]);
    free(block);
    free(block);
    free(again + 1);
    out[threadIdx.x] = 1;
}
