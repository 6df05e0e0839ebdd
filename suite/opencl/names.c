// bug: a program built without options for it overruns; its arguments have names all the same
// expect: rule=canary-overwritten kernel=put argument=the_output at=0 size=40
#include "case.h"

static const char *source = "kernel void put(global int *the_output) { the_output[get_global_id(0)] = SIZE; }\n";

int main(int count, char **arguments) {
    size_t global = is_bad(count, arguments) ? 11 : 10;
    Case c = open_case("kernel void other(global int *unused) {}\n");
    cl_int code;
    cl_program program = clCreateProgramWithSource(c.context, 1, &source, NULL, &code);
    OK(code);
    // What makes platforms remember names makes one of them (NVIDIA's, driver
    // 580) fail on kernels that have no arguments.
    const char *bare = "kernel void nothing() {}\n";
    cl_program without = clCreateProgramWithSource(c.context, 1, &bare, NULL, &code);
    OK(code);
    OK(clBuildProgram(without, 1, &c.device, NULL, NULL, NULL));
    cl_kernel nothing = clCreateKernel(without, "nothing", &code);
    OK(code);
    size_t single = 1;
    OK(clEnqueueNDRangeKernel(c.queue, nothing, 1, NULL, &single, NULL, 0, NULL, NULL));
    OK(clReleaseKernel(nothing));
    OK(clReleaseProgram(without));
    const char *options = "-DSIZE=7 -cl-mad-enable";
    OK(clBuildProgram(program, 1, &c.device, options, NULL, NULL));
    char told[200];
    size_t size;
    OK(clGetProgramBuildInfo(program, c.device, CL_PROGRAM_BUILD_OPTIONS, sizeof told, told, &size));
    MUST(size == strlen(options) + 1 && strcmp(told, options) == 0);
    cl_kernel kernel = clCreateKernel(program, "put", &code);
    OK(code);
    cl_mem out = buffer_of(&c, CL_MEM_WRITE_ONLY, 40, NULL);
    int result[10];
    ARGUMENT(kernel, 0, out);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 10);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    OK(clReleaseProgram(program));
    close_case(&c);
    return 0;
}
