//! The first call of any function starts Ringfence: reads the settings, opens
//! the device and fills the table.

use crate::environment::{device_kind, leave_error, settings};
use crate::failure::refuse;
use crate::positions::COUNT;
use crate::session::{self, Begun, Opened, Refused, Session};
use crate::stderr::say;
use crate::table::Table;
use crate::{hooks, output, process, resolver};
use driver::gpu::{Gpu, OpenError};
use driver::sys::CUresult;
use model::{DeviceKind, Settings};
use std::ffi::CString;
use std::sync::Arc;

/// Starts Ringfence if that has not happened, and answers where the function
/// at `position` is now. `missing` are the functions for what the device
/// lacks.
pub fn start(position: usize, table: &'static Table, missing: [usize; COUNT]) -> usize {
    if session::start(table, || begin(table, missing)) {
        table.target(position)
    } else {
        // This thread is in the middle of starting, and something that it
        // loaded calls CUDA: too early.
        refuse as *const () as usize
    }
}

fn begin(table: &'static Table, missing: [usize; COUNT]) -> Begun {
    let code = CUresult::CUDA_ERROR_SYSTEM_NOT_READY;
    let settings = match settings() {
        Ok(settings) => settings,
        Err(message) => {
            return fail(
                &Settings::default(),
                DeviceKind::Cpu,
                Refused { code, table },
                &message,
            );
        }
    };
    let kind = device_kind(&settings);
    let opened = match open(kind, &settings) {
        Ok(opened) => opened,
        Err((code, message)) => {
            return fail(&settings, kind, Refused { code, table }, &message);
        }
    };
    let session = Session::new(settings, kind, opened, table);
    process::register();
    Begun {
        addresses: addresses(&session, missing),
        session: Ok(session),
    }
}

/// Where each function's calls go: to its hook, to the device, or to what says
/// that the device lacks it.
fn addresses(session: &Session, mut addresses: [usize; COUNT]) -> [usize; COUNT] {
    for (address, found) in addresses.iter_mut().zip(session.next.addresses()) {
        if *found != 0 {
            *address = *found;
        }
    }
    if let Some(gpu) = &session.gpu {
        for (address, name) in addresses[driver::COUNT..].iter_mut().zip(driver::EXTRA) {
            let found = CString::new(name).map_or(0, |name| gpu.symbol(&name) as usize);
            if found != 0 {
                *address = found;
            }
        }
    }
    resolver::register(&mut |position, hook| addresses[position] = hook as usize);
    if session.is_watched() {
        hooks::register(&mut |position, hook| {
            if session.next.addresses()[position] != 0 {
                addresses[position] = hook as usize;
            }
        });
    }
    addresses
}

fn open(kind: DeviceKind, settings: &Settings) -> Result<Opened, (CUresult, String)> {
    let mut opened = match kind {
        DeviceKind::Gpu => open_gpu(settings)?,
        DeviceKind::Cpu => open_cpu(settings)?,
        DeviceKind::Tenant => open_tenant(settings)?,
    };
    if settings.protect.watch && settings.check && opened.driver.is_some() {
        opened.next = hooks::whole_device::wrap(&opened.device);
    }
    Ok(opened)
}

fn open_gpu(settings: &Settings) -> Result<Opened, (CUresult, String)> {
    match Gpu::open(settings.driver.as_deref()) {
        Ok(gpu) => {
            let gpu = Arc::new(gpu);
            Ok(Opened {
                next: *gpu.api(),
                device: *gpu.api(),
                gpu: Some(Arc::clone(&gpu)),
                driver: Some(gpu),
            })
        }
        Err(error @ OpenError::NotFound { .. }) => {
            Err((CUresult::CUDA_ERROR_NO_DEVICE, error.to_string()))
        }
        Err(error) => Err((CUresult::CUDA_ERROR_SYSTEM_NOT_READY, error.to_string())),
    }
}

fn open_cpu(settings: &Settings) -> Result<Opened, (CUresult, String)> {
    let options = cpu_api::Options {
        threads: settings.cpu_threads,
        seed: settings.seed,
        pageable: settings.cpu_pageable,
    };
    let cpu = cpu_api::open(options, output::OF_THE_PROGRAM)
        .map_err(|message| (CUresult::CUDA_ERROR_SYSTEM_NOT_READY, message))?;
    let api = cpu_api::api();
    Ok(Opened {
        next: api,
        device: api,
        gpu: None,
        driver: Some(cpu.device()),
    })
}

fn open_tenant(settings: &Settings) -> Result<Opened, (CUresult, String)> {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    tenant::connect(&tenant::Options {
        socket: settings.socket.as_deref(),
        memory: settings.tenant_memory,
        name: &name,
        say,
        print: output::OF_THE_PROGRAM.print,
    })
    .map_err(|error| (CUresult::CUDA_ERROR_NO_DEVICE, error.to_string()))?;
    let api = tenant::api();
    Ok(Opened {
        next: api,
        device: api,
        gpu: None,
        driver: None,
    })
}

/// Ringfence cannot start: every function gives the same answer. The user and
/// the command get the reason.
fn fail(settings: &Settings, kind: DeviceKind, refused: Refused, message: &str) -> Begun {
    say(&format!("error: {message}"));
    leave_error(settings, kind, message);
    let mut addresses = [refuse as *const () as usize; COUNT];
    resolver::register(&mut |position, hook| addresses[position] = hook as usize);
    Begun {
        session: Err(refused),
        addresses,
    }
}
