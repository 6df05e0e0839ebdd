// bug: behind copies of rectangles between buffers a kernel overruns
// expect: rule=canary-overwritten kernel=add argument=data at=0 size=1024
#include "case.h"

enum { WIDTH = 16, HEIGHT = 4, DEPTH = 4, COUNT = WIDTH * HEIGHT * DEPTH };

static const char *source = "kernel void add(global int *data, int n) { if (get_global_id(0) < n) data[get_global_id(0)] += 1; }\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? COUNT + 1 : COUNT;
    int start[COUNT], zero[COUNT] = {0}, result[COUNT], part[COUNT] = {0};
    for (int i = 0; i < COUNT; i++)
        start[i] = 7 * i;
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem from = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof start, start);
    cl_mem to = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, zero);
    cl_mem host = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof part, part);
    size_t row = WIDTH * sizeof(int), slice = row * HEIGHT;
    size_t at[3] = {8, 1, 0}, goal[3] = {4, 0, 1}, region[3] = {6 * sizeof(int), 3, 2}, none[3] = {0, 0, 0};
    OK(clEnqueueCopyBufferRect(c.queue, from, to, at, goal, region, row, slice, row, slice, 0, NULL, NULL));
    size_t all[3] = {row, HEIGHT, DEPTH}, last[3] = {sizeof(int), HEIGHT - 1, DEPTH - 1}, one[3] = {sizeof(int), 1, 1};
    OK(clEnqueueCopyBufferRect(c.queue, from, host, none, none, all, 0, 0, 0, 0, 0, NULL, NULL));
    OK(clEnqueueCopyBufferRect(c.queue, host, to, last, last, one, row, slice, row, slice, 0, NULL, NULL));
    // Inside one buffer.
    size_t below[3] = {0, 2, 3};
    size_t line[3] = {row, 1, 1};
    OK(clEnqueueCopyBufferRect(c.queue, to, to, goal, below, line, row, slice, row, slice, 0, NULL, NULL));
    int read[COUNT] = {0};
    OK(clEnqueueReadBufferRect(c.queue, to, CL_TRUE, goal, none, region, row, slice, 0, 0, read, 0, NULL, NULL));
    OK(clEnqueueWriteBufferRect(c.queue, to, CL_TRUE, none, none, region, row, slice, 0, 0, read, 0, NULL, NULL));
    size_t global = 300;
    ARGUMENT(kernel, 0, to);
    ARGUMENT(kernel, 1, n);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, to, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, COUNT);
    print_sum(read, COUNT);
    OK(clReleaseMemObject(from));
    OK(clReleaseMemObject(to));
    OK(clReleaseMemObject(host));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
