// bug: the host writes more bytes than a buffer has and does not look at the code
// expect: rule=copy-out-of-bounds-write call=clEnqueueWriteBuffer size=256
#include "case.h"

static const char *source = "kernel void twice(global int *data) { data[get_global_id(0)] *= 2; }\n";

int main(int count, char **arguments) {
    int data[80], result[64];
    size_t bytes = is_bad(count, arguments) ? sizeof data : sizeof result;
    for (int i = 0; i < 80; i++)
        data[i] = i;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "twice");
    cl_mem buffer = buffer_of(&c, CL_MEM_READ_WRITE, sizeof result, NULL);
    cl_int code = clEnqueueWriteBuffer(c.queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL); // BUG
    MUST(code == (bytes == sizeof data ? CL_INVALID_VALUE : CL_SUCCESS));
    ARGUMENT(kernel, 0, buffer);
    size_t global = 64;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, buffer, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    if (code == CL_SUCCESS)
        print_sum(result, 64);
    OK(clReleaseMemObject(buffer));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
