// bug: a kernel overruns; what the program hears of it by a callback comes after the look at it
// expect: rule=canary-overwritten kernel=one argument=out at=0 size=64
// run: canary-pattern=0xC2 canary-size=64k
#include "case.h"
#include <stdatomic.h>
#include <time.h>

static const char *source = "kernel void one(global int *out, int n) { if (get_global_id(0) < n) out[get_global_id(0)] = 1; }\n";

static atomic_int called;
static cl_event told;

static void CL_CALLBACK complete(cl_event event, cl_int status, void *data) {
    told = event;
    atomic_store(&called, status == CL_COMPLETE && data == &called ? 1 : 2);
}

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 17 : 16, result[16];
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "one");
    cl_mem out = buffer_of(&c, CL_MEM_READ_WRITE, sizeof result, NULL);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, n);
    size_t global = 32;
    cl_event start, event;
    cl_int code;
    start = clCreateUserEvent(c.context, &code);
    OK(code);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 1, &start, &event)); // BUG
    OK(clSetEventCallback(event, CL_COMPLETE, complete, &called));
    OK(clRetainEvent(event));
    OK(clReleaseEvent(event));
    MUST(atomic_load(&called) == 0);
    OK(clSetUserEventStatus(start, CL_COMPLETE));
    OK(clFlush(c.queue));
    for (int i = 0; i < 2000 && !atomic_load(&called); i++)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    MUST(atomic_load(&called) == 1 && told == event);
    OK(clEnqueueReadBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 1, &event, NULL));
    print_sum(result, 16);
    OK(clReleaseEvent(event));
    OK(clReleaseEvent(start));
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
