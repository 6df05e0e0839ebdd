// bug: a kernel writes past the end of the rows of an image
// expect: rule=canary-overwritten kernel=paint argument=out at=0
#include "case.h"

static const char *source = "kernel void paint(write_only image2d_t out, int width) {\n"
                            "    int x = get_global_id(0), y = get_global_id(1);\n"
                            "    if (x < width) write_imagef(out, (int2)(x, y), (float4)(x, y, 2.0f, 1.0f));\n"
                            "}\n";

int main(int count, char **arguments) {
    int width = is_bad(count, arguments) ? 51 : 50;
    static float pixels[50 * 20][4];
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "paint");
    cl_image_format format = {CL_RGBA, CL_FLOAT};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 50, .image_height = 20};
    cl_int code;
    cl_mem out = clCreateImage(c.context, CL_MEM_WRITE_ONLY, &format, &description, NULL, &code);
    OK(code);
    size_t told;
    OK(clGetImageInfo(out, CL_IMAGE_WIDTH, sizeof told, &told, NULL));
    MUST(told == 50);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, width);
    size_t global[2] = {64, 20}, origin[3] = {0, 0, 0}, region[3] = {50, 20, 1};
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 2, NULL, global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadImage(c.queue, out, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    float sum = 0;
    for (int i = 0; i < 50 * 20; i++)
        sum += pixels[i][0] + pixels[i][1] + pixels[i][2];
    printf("%.0f\n", sum);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
