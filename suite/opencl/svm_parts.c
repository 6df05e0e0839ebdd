// bug: a kernel writes past the end of shared virtual memory through a part of the buffer made of it
// expect: rule=canary-overwritten kernel=link size=1024 at=8
//
// What the parts hold are addresses, of each other's elements too: they must be
// those of the allocation while a kernel runs, and a kernel that has all parts
// may go from one into the next.
#include "case.h"

static const char *source = "typedef struct Node { global struct Node *next; ulong number; } Node;\n"
                            "kernel void link(global Node *first, global Node *second, int n, int past) {\n"
                            "    for (int i = 0; i < n; i++) {\n"
                            "        first[i].next = i + 1 < n ? first + i + 1 : 0;\n"
                            "        first[i].number = i;\n"
                            "    }\n"
                            "    if (past) second[n / 2].number = 1;\n"
                            "}\n"
                            "kernel void count(global Node *first, global Node *second, global ulong *sum) {\n"
                            "    for (global Node *node = first; node; node = node->next) *sum += node->number;\n"
                            "}\n";

typedef struct Node {
    struct Node *next;
    cl_ulong number;
} Node;

int main(int count, char **arguments) {
    enum { N = 64 };
    int n = N, past = is_bad(count, arguments);
    size_t one = 1, half = N / 2 * sizeof(Node);
    cl_ulong sum = 0;
    Case c = open_case(source);
    NEEDS(has_svm(&c, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER), "shared virtual memory");
    Node *nodes = clSVMAlloc(c.context, CL_MEM_READ_WRITE, N * sizeof(Node), 0);
    MUST(nodes);
    cl_mem whole = buffer_of(&c, CL_MEM_USE_HOST_PTR, N * sizeof(Node), nodes);
    cl_mem result = buffer_of(&c, CL_MEM_COPY_HOST_PTR, sizeof sum, &sum), parts[2];
    for (int i = 0; i < 2; i++) {
        cl_buffer_region region = {half * i, half};
        cl_int code;
        parts[i] = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        OK(code);
    }
    cl_kernel link = kernel_of(&c, "link"), add = kernel_of(&c, "count");
    ARGUMENT(link, 0, parts[0]);
    ARGUMENT(link, 1, parts[1]);
    ARGUMENT(link, 2, n);
    ARGUMENT(link, 3, past);
    OK(clEnqueueNDRangeKernel(c.queue, link, 1, NULL, &one, NULL, 0, NULL, NULL)); // BUG
    ARGUMENT(add, 0, parts[0]);
    ARGUMENT(add, 1, parts[1]);
    ARGUMENT(add, 2, result);
    OK(clEnqueueNDRangeKernel(c.queue, add, 1, NULL, &one, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, result, CL_TRUE, 0, sizeof sum, &sum, 0, NULL, NULL));
    cl_int code;
    Node *seen = clEnqueueMapBuffer(c.queue, whole, CL_TRUE, CL_MAP_READ, 0, N * sizeof(Node), 0, NULL, NULL, &code);
    OK(code);
    MUST(seen == nodes);
    for (int i = 0; i < N; i++)
        MUST(seen[i].next == (i + 1 < N ? nodes + i + 1 : NULL) && seen[i].number == (cl_ulong)i);
    OK(clEnqueueUnmapMemObject(c.queue, whole, seen, 0, NULL, NULL));
    OK(clFinish(c.queue));
    printf("%llu\n", (unsigned long long)sum);
    for (int i = 0; i < 2; i++)
        OK(clReleaseMemObject(parts[i]));
    OK(clReleaseMemObject(whole));
    OK(clReleaseMemObject(result));
    clSVMFree(c.context, nodes);
    OK(clReleaseKernel(link));
    OK(clReleaseKernel(add));
    close_case(&c);
    return 0;
}
