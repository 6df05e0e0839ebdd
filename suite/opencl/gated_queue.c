// bug: a kernel overruns a buffer that was first given to a kernel in another queue, behind one that waits
// expect: rule=canary-overwritten kernel=add argument=out at=0 size=64
#include "case.h"

static const char *source = "kernel void add(global int *out, int n) { if (get_global_id(0) < n) out[get_global_id(0)] += 1; }\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 17 : 16, enough = 16, result[16] = {0};
    Case c = open_case(source);
    cl_int code;
    cl_command_queue other = clCreateCommandQueue(c.context, c.device, 0, &code);
    OK(code);
    cl_kernel kernel = kernel_of(&c, "add");
    cl_mem first = buffer_of(&c, CL_MEM_READ_WRITE, sizeof result, NULL);
    cl_mem out = buffer_of(&c, CL_MEM_READ_WRITE, sizeof result, NULL);
    OK(clEnqueueWriteBuffer(c.queue, first, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    OK(clEnqueueWriteBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    size_t global = 32;
    cl_event start = clCreateUserEvent(c.context, &code);
    OK(code);
    ARGUMENT(kernel, 0, first);
    ARGUMENT(kernel, 1, enough);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 1, &start, NULL));
    ARGUMENT(kernel, 0, out);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clFlush(c.queue));
    // The program lets the first queue go on only when this one has ended.
    ARGUMENT(kernel, 1, n);
    OK(clEnqueueNDRangeKernel(other, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clFinish(other));
    OK(clSetUserEventStatus(start, CL_COMPLETE));
    OK(clFinish(c.queue));
    OK(clEnqueueReadBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 16);
    OK(clReleaseEvent(start));
    OK(clReleaseMemObject(first));
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    OK(clReleaseCommandQueue(other));
    close_case(&c);
    return 0;
}
