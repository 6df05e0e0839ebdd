//! Gives the library the name under which programs look for the CUDA driver.

fn main() {
    // A preloaded object with this SONAME satisfies dlopen("libcuda.so.1").
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Threads and exit handlers of this library outlive any dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
