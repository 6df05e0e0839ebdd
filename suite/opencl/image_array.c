// bug: a kernel writes past the end of the rows of one image of an array
// expect: rule=canary-overwritten kernel=layer argument=out at=0
#include "case.h"

static const char *source = "kernel void layer(write_only image2d_array_t out, int width) {\n"
                            "    int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);\n"
                            "    if (at.x < width) write_imagei(out, at, (int4)(at.x + at.y - at.z));\n"
                            "}\n";

int main(int count, char **arguments) {
    int width = is_bad(count, arguments) ? 13 : 12;
    static int pixels[12 * 5 * 3];
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "layer");
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {
        .image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY, .image_width = 12, .image_height = 5, .image_array_size = 3};
    cl_int code;
    cl_mem out = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, width);
    size_t global[3] = {16, 5, 3}, origin[3] = {0, 0, 0}, region[3] = {12, 5, 3};
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 3, NULL, global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadImage(c.queue, out, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    print_sum(pixels, 12 * 5 * 3);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
