// bug: a kernel writes before the start of a part of the host's memory
// expect: rule=canary-overwritten kernel=back argument=part at=-1 size=256
#include "case.h"

static const char *source = "kernel void back(global int *part, constant int *by) { part[get_global_id(0) - by[0]] = 4; }\n";

int main(int count, char **arguments) {
    static int data[256] __attribute__((aligned(4096)));
    static int by[64] __attribute__((aligned(4096)));
    by[0] = is_bad(count, arguments) ? 3 : 0;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "back");
    cl_mem whole = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof data, data);
    cl_mem constant = buffer_of(&c, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, sizeof by, by);
    cl_buffer_region region = {256, 256};
    cl_int code;
    cl_mem part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    OK(code);
    ARGUMENT(kernel, 0, part);
    ARGUMENT(kernel, 1, constant);
    size_t global = 64;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    int result[256];
    OK(clEnqueueReadBuffer(c.queue, whole, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    MUST(result[63] == 0 && result[64] == 4 && result[128] == 0);
    print_sum(result, 256);
    OK(clReleaseMemObject(part));
    OK(clReleaseMemObject(whole));
    OK(clReleaseMemObject(constant));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
