// bug: behind kernels that never run, because what they wait for fails, a kernel overruns
// expect: rule=canary-overwritten kernel=one argument=out at=0 size=64
#include "case.h"

static const char *source = "kernel void one(global int *out, int n) { if (get_global_id(0) < n) out[get_global_id(0)] += 1; }\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 17 : 16, enough = 16, result[16] = {0};
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "one");
    cl_mem out = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof result, result);
    cl_mem other = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof result, result);
    cl_mem late = buffer_of(&c, CL_MEM_READ_WRITE, sizeof result, NULL);
    size_t global = 32;
    cl_int code, status;
    for (int i = 0; i < 3; i++) {
        cl_event start = clCreateUserEvent(c.context, &code), events[4];
        OK(code);
        cl_mem objects[] = {out, other, late, out};
        for (int k = 0; k < 4; k++) {
            ARGUMENT(kernel, 0, objects[k]);
            ARGUMENT(kernel, 1, enough);
            OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, k == 0, k == 0 ? &start : NULL, &events[k]));
        }
        OK(clSetUserEventStatus(start, -7));
        for (int k = 0; k < 4; k++) {
            MUST(clWaitForEvents(1, &events[k]) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            OK(clGetEventInfo(events[k], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
            MUST(status < 0);
        }
        OK(clFinish(c.queue));
        for (int k = 0; k < 4; k++)
            OK(clReleaseEvent(events[k]));
        OK(clReleaseEvent(start));
    }
    ARGUMENT(kernel, 0, other);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    ARGUMENT(kernel, 0, late);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, n);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, other, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 16);
    OK(clEnqueueReadBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 16);
    OK(clReleaseMemObject(out));
    OK(clReleaseMemObject(other));
    OK(clReleaseMemObject(late));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
