// bug: a kernel writes past the end of a row, in a program with includes, pasted tokens and comments that name get_image_width
// expect: rule=canary-overwritten kernel=paint argument=out
#include "case.h"

static const char *source = "// get_image_width would notice\n"
                            "#define JOIN(a, b) a##b\n"
                            "/* #include \"missing.h\" */\n"
                            "int get_image_pixel(int include) { return include; }\n"
                            "kernel void paint(write_only image2d_t out, int n) {\n"
                            "    int i = JOIN(get_global_, id)(0);\n"
                            "    if (i < n) write_imagei(out, (int2)(i, 3), (int4)(get_image_pixel(i), 0, 0, 0));\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 17 : 16, pixels[256] = {0};
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "paint");
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
    cl_int code;
    cl_mem image = clCreateImage(c.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format, &description, pixels, &code);
    OK(code);
    ARGUMENT(kernel, 0, image);
    ARGUMENT(kernel, 1, n);
    size_t global = 32, origin[3] = {0, 0, 0}, region[3] = {16, 16, 1};
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadImage(c.queue, image, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    print_sum(pixels, 48);
    OK(clReleaseMemObject(image));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
