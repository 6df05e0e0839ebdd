// bug: a kernel that gets a buffer and a part of it overruns the buffer
// expect: rule=canary-overwritten kernel=spread argument=whole at=0 size=1024
#include "case.h"

static const char *source = "kernel void spread(global int *whole, global int *part, int n) {\n"
                            "    part[get_global_id(0)] = 7;\n"
                            "    if (get_global_id(0) < n) whole[get_global_id(0) + 192] = part[get_global_id(0)] + 1;\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 65 : 64, data[256] = {0};
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "spread");
    cl_mem whole = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof data, data);
    cl_buffer_region region = {256, 512};
    cl_int code;
    cl_mem part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    OK(code);
    ARGUMENT(kernel, 0, whole);
    ARGUMENT(kernel, 1, part);
    ARGUMENT(kernel, 2, n);
    size_t global = 80;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, whole, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    print_sum(data, 256);
    OK(clReleaseMemObject(part));
    OK(clReleaseMemObject(whole));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
