//! Limits of the device, as far as they are the tenant's own.

use crate::convert::{Answer, functions, put};
use crate::link::Link;
use crate::state::enter;
use driver::sys::{CUlimit, CUresult};
use protocol::{Limit, Reply, Request};

/// What a tenant can ask for.
fn known(link: &Link, limit: CUlimit) -> Result<Limit, CUresult> {
    match limit {
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => Ok(Limit::Print),
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => Ok(Limit::Heap),
        other => {
            link.say(&format!(
                "limit {} of the device is no tenant's own; the call fails with CUDA_ERROR_NOT_SUPPORTED",
                other.0
            ));
            Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
        }
    }
}

fn set(link: &Link, limit: CUlimit, bytes: usize) -> Answer {
    enter(link)?;
    let limit = known(link, limit)?;
    link.done(&Request::SetLimit {
        limit,
        bytes: bytes as u64,
    })
}

fn get(link: &Link, limit: CUlimit) -> Result<usize, CUresult> {
    enter(link)?;
    let limit = known(link, limit)?;
    match link.wait(&Request::GetLimit { limit })? {
        Reply::Size(bytes) => Ok(bytes as usize),
        _ => Err(link.astray()),
    }
}

functions! { link;
    fn cuCtxSetLimit(limit: CUlimit, value: usize) {
        set(link, limit, value)
    }
    fn cuCtxGetLimit(value: *mut usize, limit: CUlimit) {
        put(value, get(link, limit)?)
    }
}
