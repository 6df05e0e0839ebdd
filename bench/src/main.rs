//! `ringfence-bench`: what Ringfence costs.

mod cache;
mod canary;
mod cores;
mod counters;
mod fence;
mod fenced;
mod gpu;
mod guard;
mod heap;
mod host;
mod instrument;
mod isolation;
mod live;
mod opencl;
mod options;
mod origins;
mod pages;
mod planted;
mod plots;
mod protections;
mod resources;
mod shadow;
mod shadow_study;
mod sharing;
mod training;
mod turns;
mod watch;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Times of kernels and launches, with and without Ringfence.")]
struct Arguments {
    #[command(subcommand)]
    command: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Kernel and launch times on the GPU.
    Gpu(gpu::Gpu),
    /// What canaries around CUDA buffers cost.
    Canary(options::Options),
    /// What fences cost, by form.
    Fence(options::Options),
    /// How many loads and stores there are in PTX, and how they are fenced.
    Fenced(fenced::Fenced),
    /// Device-side malloc and free, against CUDA's own.
    Heap(heap::Heap),
    /// Launches, allocations and steps of training: what the host's time grows by.
    Host(host::Host),
    /// What unmapped pages around CUDA buffers cost.
    Pages(pages::Pages),
    /// Wrong sizes in calls of libraries: which are found at unmapped pages.
    Planted(planted::Planted),
    /// What each protection costs.
    Protections(options::Options),
    /// Registers and spills that fences take, as ptxas says.
    Resources(resources::Resources),
    /// What shadow memory costs.
    Shadow(options::Options),
    /// What the parts of checks against shadow memory cost (GASan's figures).
    ShadowStudy(shadow_study::Study),
    /// What canary scans cost in OpenCL programs.
    Opencl(opencl::OpenCl),
    /// What the guard costs, and how soon it detects a write.
    Watch(options::Options),
    /// Attacks of tenants on each other and on the manager, beside a neighbour.
    Isolation(isolation::Isolation),
    /// Tenants that compute and one that attacks them at random, for long.
    Soak(isolation::soak::Soak),
    /// Programs that share a device: time slicing, MPS, and tenants.
    Sharing(sharing::Sharing),
    /// What single calls take, natively and of tenants.
    Calls(sharing::calls::Calls),
    /// How fast PTX is instrumented.
    Instrument(instrument::Instrument),
    /// What loading a module costs, with and without instrumented modules on disk.
    CachedStart(cache::CachedStart),
    /// What the bounds of accesses are derived from, and why some are checked
    /// by their address alone.
    Origins(origins::Origins),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Bench::Gpu(gpu) => gpu::measure(&gpu),
        Bench::Canary(options) => canary::measure(&options),
        Bench::Fence(options) => fence::measure(&options),
        Bench::Fenced(fenced) => fenced::measure(&fenced),
        Bench::Heap(options) => heap::measure(&options),
        Bench::Host(host) => host::measure(&host),
        Bench::Pages(pages) => pages::measure(&pages),
        Bench::Planted(planted) => planted::measure(&planted),
        Bench::Protections(options) => protections::measure(&options),
        Bench::Resources(options) => resources::measure(&options),
        Bench::Shadow(options) => shadow::measure(&options),
        Bench::ShadowStudy(study) => shadow_study::measure(&study),
        Bench::Opencl(options) => opencl::measure(&options),
        Bench::Watch(options) => watch::measure(&options),
        Bench::Isolation(isolation) => isolation::measure(&isolation),
        Bench::Soak(soak) => isolation::soak::measure(soak),
        Bench::Sharing(sharing) => sharing::measure(&sharing),
        Bench::Calls(calls) => sharing::calls::measure(&calls),
        Bench::Instrument(instrument) => instrument::measure(&instrument),
        Bench::CachedStart(cached) => cache::measure(&cached),
        Bench::Origins(origins) => origins::measure(&origins),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringfence-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
