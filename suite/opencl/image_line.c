// bug: a kernel writes past the end of a one-dimensional image; one that asks for its width is left alone
// expect: rule=canary-overwritten kernel=ramp argument=out at=4
#include "case.h"

static const char *source = "kernel void ramp(write_only image1d_t out, int from) {\n"
                            "    write_imageui(out, from + (int)get_global_id(0), (uint4)(get_global_id(0)));\n"
                            "}\n";
static const char *asking = "kernel void whole(write_only image1d_t out) {\n"
                            "    int x = get_global_id(0);\n"
                            "    if (x < get_image_width(out)) write_imageui(out, x, (uint4)(1000 + x));\n"
                            "}\n";

int main(int count, char **arguments) {
    int from = is_bad(count, arguments) ? 101 : 40;
    unsigned pixels[100];
    Case c = open_case(source), d = open_case(asking);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "ramp");
    cl_image_format format = {CL_R, CL_UNSIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE1D, .image_width = 100};
    cl_int code;
    cl_mem out = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    cl_program program = clCreateProgramWithSource(c.context, 1, &asking, NULL, &code);
    OK(code);
    OK(clBuildProgram(program, 1, &c.device, "-cl-kernel-arg-info", NULL, NULL));
    cl_kernel whole = clCreateKernel(program, "whole", &code);
    OK(code);
    size_t global = 128, some = 10, origin[3] = {0, 0, 0}, region[3] = {100, 1, 1};
    ARGUMENT(whole, 0, out);
    OK(clEnqueueNDRangeKernel(c.queue, whole, 1, NULL, &global, NULL, 0, NULL, NULL));
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, from);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &some, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadImage(c.queue, out, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    print_sum((int *)pixels, 100);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    OK(clReleaseKernel(whole));
    OK(clReleaseProgram(program));
    close_case(&c);
    close_case(&d);
    return 0;
}
