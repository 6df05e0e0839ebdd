// bug: the host writes before the start of what it has mapped to read it; no kernel must be blamed
// expect: rule=canary-overwritten call=clEnqueueUnmapMemObject size=1024
#include "case.h"

static const char *source = "kernel void add(global int *data) { data[get_global_id(0)] += 1; }\n";

int main(int count, char **arguments) {
    int first = is_bad(count, arguments) ? -1 : 0, result[256] = {0};
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof result, result);
    ARGUMENT(kernel, 0, data);
    size_t global = 256;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    cl_int code;
    // A map that nobody waits for and nobody uses is none that can be looked at.
    void *unused = clEnqueueMapBuffer(c.queue, data, CL_FALSE, CL_MAP_READ, 0, sizeof result, 0, NULL, NULL, &code);
    OK(code);
    OK(clEnqueueUnmapMemObject(c.queue, data, unused, 0, NULL, NULL));
    // Two maps at once, one of them of a part.
    volatile int *mapped =
        clEnqueueMapBuffer(c.queue, data, CL_TRUE, CL_MAP_READ, 0, sizeof result, 0, NULL, NULL, &code);
    OK(code);
    volatile int *half = clEnqueueMapBuffer(c.queue, data, CL_TRUE, CL_MAP_READ, 512, 512, 0, NULL, NULL, &code);
    OK(code);
    MUST(mapped[0] == 1 && mapped[255] == 1 && half[0] == 1 && half[127] == 1);
    for (int i = first; i < 0; i++)
        mapped[i] = 0;
    OK(clEnqueueUnmapMemObject(c.queue, data, (void *)half, 0, NULL, NULL));
    OK(clEnqueueUnmapMemObject(c.queue, data, (void *)mapped, 0, NULL, NULL)); // BUG
    // What need not be read may hold anything: the canaries are no part of it.
    mapped = clEnqueueMapBuffer(c.queue, data, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, sizeof result, 0, NULL,
                                NULL, &code);
    OK(code);
    for (int i = 0; i < 256; i++)
        mapped[i] = i;
    OK(clEnqueueUnmapMemObject(c.queue, data, (void *)mapped, 0, NULL, NULL));
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 256);
    OK(clReleaseMemObject(data));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
