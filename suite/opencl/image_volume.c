// bug: a kernel writes behind the last slice of a three-dimensional image
// expect: rule=canary-overwritten kernel=stack argument=out at=0
#include "case.h"

static const char *source = "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable\n"
                            "kernel void stack(write_only image3d_t out, int depth) {\n"
                            "    int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);\n"
                            "    if (at.z < depth) write_imagei(out, at, (int4)(at.x + 10 * at.y + 100 * at.z));\n"
                            "}\n";

int main(int count, char **arguments) {
    int depth = is_bad(count, arguments) ? 7 : 6;
    static int pixels[6 * 8 * 9];
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "stack");
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {
        .image_type = CL_MEM_OBJECT_IMAGE3D, .image_width = 9, .image_height = 8, .image_depth = 6};
    cl_int code;
    cl_mem out = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, depth);
    size_t global[3] = {9, 8, 8}, origin[3] = {0, 0, 0}, region[3] = {9, 8, 6};
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 3, NULL, global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadImage(c.queue, out, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    print_sum(pixels, 6 * 8 * 9);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
