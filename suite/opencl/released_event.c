// bug: a kernel overruns, and its event is released before the callback that was set on it
// expect: rule=canary-overwritten kernel=one argument=out at=0 size=64
// run: canary-pattern=0xC2
#include "case.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 4, LAUNCHES = 20 };

static const char *source = "kernel void one(global int *out, int n) { if (get_global_id(0) < n) out[get_global_id(0)] = 1; }\n";

static Case c;
static int items;
static atomic_int called;

static void CL_CALLBACK complete(cl_event event, cl_int status, void *data) {
    cl_command_type type = 0;
    OK(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    if (status == CL_COMPLETE && type == CL_COMMAND_NDRANGE_KERNEL && data == &called)
        atomic_fetch_add(&called, 1);
}

static void *work(void *result) {
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(c.context, c.device, 0, &code);
    OK(code);
    cl_kernel kernel = kernel_of(&c, "one");
    cl_mem out = buffer_of(&c, CL_MEM_READ_WRITE, 16 * sizeof(int), NULL);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, items);
    size_t global = 32;
    for (int i = 0; i < LAUNCHES; i++) {
        cl_event event, start = clCreateUserEvent(c.context, &code);
        OK(code);
        OK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 1, &start, &event)); // BUG
        OK(clSetEventCallback(event, CL_COMPLETE, complete, &called));
        OK(clReleaseEvent(event));
        OK(clSetUserEventStatus(start, CL_COMPLETE));
        OK(clReleaseEvent(start));
    }
    OK(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, 16 * sizeof(int), result, 0, NULL, NULL));
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    OK(clReleaseCommandQueue(queue));
    return NULL;
}

int main(int count, char **arguments) {
    items = is_bad(count, arguments) ? 17 : 16;
    c = open_case(source);
    pthread_t threads[THREADS];
    int results[THREADS][16];
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, work, results[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 2000 && atomic_load(&called) < THREADS * LAUNCHES; i++)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    MUST(atomic_load(&called) == THREADS * LAUNCHES);
    print_sum(&results[0][0], THREADS * 16);
    close_case(&c);
    return 0;
}
