// bug: a buffer that is given twice is overrun; it is one finding, through the first argument
// expect: rule=canary-overwritten kernel=add argument=left at=0 size=512
#include "case.h"

static const char *source = "kernel void add(global int *left, global int *right, int n) {\n"
                            "    int i = get_global_id(0);\n"
                            "    if (i < n) right[i] = left[i % 128] + i;\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 130 : 128;
    int data[128];
    for (int i = 0; i < 128; i++)
        data[i] = i;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem both = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof data, data);
    ARGUMENT(kernel, 0, both);
    ARGUMENT(kernel, 1, both);
    ARGUMENT(kernel, 2, n);
    size_t global = 256;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, both, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    printf("%d\n", data[127]);
    OK(clReleaseMemObject(both));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
