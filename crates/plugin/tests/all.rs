//! Tests of the device plugin and of the driver of dynamic resource allocation. They
//! are one program, because linking takes longer than compiling them.

mod containers;
mod dra;
mod kubelet;
mod manifests;
mod objects;
mod slurm;
mod support;
mod wire;
