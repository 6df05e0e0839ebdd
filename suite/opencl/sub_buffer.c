// bug: a kernel writes past the end of a sub-buffer, into the rest of its buffer
// expect: rule=canary-overwritten kernel=fill argument=out at=0 size=512
#include "case.h"

static const char *source = "kernel void fill(int n, global int *out, int value) {\n"
                            "    int i = get_global_id(0);\n"
                            "    if (i < n) out[i] += value;\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = 128, limit = is_bad(count, arguments) ? n + 2 : n;
    int data[512];
    for (int i = 0; i < 512; i++)
        data[i] = i;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "fill");
    cl_mem whole = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof data, data);
    cl_mem parts[2];
    for (int i = 0; i < 2; i++) {
        cl_buffer_region region = {512 + 512 * i, 512};
        cl_int code;
        parts[i] = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        OK(code);
    }
    size_t global = 256;
    // Two neighbours, one after the other, again and again.
    for (int i = 0; i < 6; i++) {
        int value = 1 << i;
        ARGUMENT(kernel, 0, limit);
        ARGUMENT(kernel, 1, parts[i % 2]);
        ARGUMENT(kernel, 2, value);
        OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    }
    OK(clReleaseMemObject(parts[0]));
    OK(clEnqueueReadBuffer(c.queue, whole, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    if (limit == n)
        for (int i = 0; i < 512; i++)
            MUST(data[i] == i + (i / 128 == 1 ? 1 + 4 + 16 : i / 128 == 2 ? 2 + 8 + 32 : 0));
    print_sum(data, 512);
    OK(clReleaseMemObject(parts[1]));
    OK(clReleaseMemObject(whole));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
