// bug: a kernel writes past the end of the rows of the second level of a mipmap
// expect: rule=canary-overwritten kernel=paint argument=out at=0
#include "case.h"

static const char *source = "#pragma OPENCL EXTENSION cl_khr_mipmap_image : enable\n"
                            "#pragma OPENCL EXTENSION cl_khr_mipmap_image_writes : enable\n"
                            "kernel void paint(write_only image2d_t out, int width) {\n"
                            "    int x = get_global_id(0), y = get_global_id(1);\n"
                            "    if (x < width) write_imagef(out, (int2)(x, y), 1, (float4)(x, y, 2.0f, 1.0f));\n"
                            "}\n";

static int has(cl_device_id device, const char *extension) {
    static char names[1 << 16];
    OK(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof names, names, NULL));
    return strstr(names, extension) != NULL;
}

int main(int count, char **arguments) {
    int width = is_bad(count, arguments) ? 33 : 32;
    static float pixels[32 * 16][4];
    // Before the kernel is built, which only such a platform can.
    Case c = open_case("kernel void none(global int *data) { data[0] = 0; }\n");
    NEEDS(has_images(&c) && has(c.device, "cl_khr_mipmap_image_writes"), "mipmaps that kernels write");
    cl_int code;
    OK(clReleaseProgram(c.program));
    c.program = clCreateProgramWithSource(c.context, 1, &source, NULL, &code);
    OK(code);
    OK(clBuildProgram(c.program, 1, &c.device, "-cl-std=CL2.0", NULL, NULL));
    cl_kernel kernel = kernel_of(&c, "paint");
    cl_image_format format = {CL_RGBA, CL_FLOAT};
    cl_image_desc description = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 32, .num_mip_levels = 3};
    cl_mem out = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    ARGUMENT(kernel, 0, out);
    ARGUMENT(kernel, 1, width);
    size_t global[2] = {48, 16}, origin[3] = {0, 0, 1}, region[3] = {32, 16, 1};
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 2, NULL, global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadImage(c.queue, out, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    printf("%.0f\n", pixels[32 * 16 - 1][0]);
    OK(clReleaseMemObject(out));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
