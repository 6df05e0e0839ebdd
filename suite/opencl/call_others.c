// bug: a read, a copy, a fill and a copy of boxes leave their buffers
// expect: rule=copy-out-of-bounds-read call=clEnqueueReadBuffer size=1000
// expect: rule=copy-out-of-bounds-write call=clEnqueueCopyBuffer size=1000
// expect: rule=copy-out-of-bounds-write call=clEnqueueFillBuffer size=1000
// expect: rule=copy-out-of-bounds-read call=clEnqueueReadBufferRect size=2000
#include "case.h"

static const char *source = "kernel void zero(global uchar *data) { data[get_global_id(0)] = 0; }\n";

int main(int count, char **arguments) {
    int bad = is_bad(count, arguments);
    static unsigned char host[4000];
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "zero");
    cl_mem small = buffer_of(&c, CL_MEM_READ_WRITE, 1000, NULL), large = buffer_of(&c, CL_MEM_READ_WRITE, 2000, NULL);
    ARGUMENT(kernel, 0, large);
    size_t global = 2000;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    cl_int wanted = bad ? CL_INVALID_VALUE : CL_SUCCESS;
    unsigned char pattern = 7;
    MUST(clEnqueueFillBuffer(c.queue, small, &pattern, 1, 900 + bad, 100, 0, NULL, NULL) == wanted);            // BUG
    MUST(clEnqueueCopyBuffer(c.queue, large, small, 0, 500 + bad, 500, 0, NULL, NULL) == wanted);               // BUG
    MUST(clEnqueueReadBuffer(c.queue, small, CL_TRUE, 999, 1 + bad, host, 0, NULL, NULL) == wanted);            // BUG
    size_t origin[3] = {60, 0, 0}, host_origin[3] = {0, 0, 0}, region[3] = {40 + bad, 20, 1};
    MUST(clEnqueueReadBufferRect(c.queue, large, CL_TRUE, origin, host_origin, region, 100, 0, 0, 0, host, 0, NULL, // BUG
                                 NULL) == wanted);
    OK(clFinish(c.queue));
    printf("%d\n", host[0]);
    OK(clReleaseMemObject(small));
    OK(clReleaseMemObject(large));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
