// bug: in an out-of-order queue one kernel of a chain overruns its buffer
// expect: rule=canary-overwritten kernel=middle argument=data at=8
#include "case.h"

static const char *source = "kernel void start(global int *data) { data[get_global_id(0)] = get_global_id(0); }\n"
                            "kernel void middle(global int *data, int extra) {\n"
                            "    int i = get_global_id(0);\n"
                            "    data[i] *= 2;\n"
                            "    if (i == 0 && extra) data[get_global_size(0) + 2] = 9;\n"
                            "}\n"
                            "kernel void end(global int *data) { data[get_global_id(0)] += 1; }\n";

int main(int count, char **arguments) {
    int extra = is_bad(count, arguments);
    int result[500];
    Case c = open_with(source, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE);
    cl_kernel start = kernel_of(&c, "start"), middle = kernel_of(&c, "middle"), end = kernel_of(&c, "end");
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE, sizeof result, NULL);
    ARGUMENT(start, 0, data);
    ARGUMENT(middle, 0, data);
    ARGUMENT(middle, 1, extra);
    ARGUMENT(end, 0, data);
    size_t global = 500;
    cl_event events[3];
    OK(clEnqueueNDRangeKernel(c.queue, start, 1, NULL, &global, NULL, 0, NULL, &events[0]));
    OK(clEnqueueNDRangeKernel(c.queue, middle, 1, NULL, &global, NULL, 1, &events[0], &events[1])); // BUG
    OK(clEnqueueNDRangeKernel(c.queue, end, 1, NULL, &global, NULL, 1, &events[1], &events[2]));
    OK(clWaitForEvents(1, &events[2]));
    // The events are the kernels' own: each is a kernel, with its own times.
    cl_ulong last = 0;
    for (int i = 0; i < 3; i++) {
        cl_command_type type;
        cl_uint references;
        cl_ulong from, to;
        OK(clGetEventInfo(events[i], CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
        MUST(type == CL_COMMAND_NDRANGE_KERNEL);
        OK(clGetEventInfo(events[i], CL_EVENT_REFERENCE_COUNT, sizeof references, &references, NULL));
        MUST(references >= 1);
        OK(clGetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_START, sizeof from, &from, NULL));
        OK(clGetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_END, sizeof to, &to, NULL));
        MUST(last <= from && from <= to);
        last = to;
        OK(clReleaseEvent(events[i]));
    }
    OK(clEnqueueReadBuffer(c.queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 500);
    OK(clReleaseMemObject(data));
    OK(clReleaseKernel(start));
    OK(clReleaseKernel(middle));
    OK(clReleaseKernel(end));
    close_case(&c);
    return 0;
}
