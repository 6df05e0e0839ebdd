//! Gives the library the name under which programs look for the CUDA driver.

fn main() {
    // A preloaded object with this SONAME satisfies dlopen("libcuda.so.1").
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Threads and exit handlers of this library outlive any dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Start before the libraries that the program is linked with: those with a
    // static CUDA runtime of their own register kernels when they start.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rerun-if-changed=build.rs");
}
