//! Limits of the device: those that are the tenant's own, and those that are
//! kept and change nothing.

use crate::convert::{Answer, functions, put};
use crate::link::Link;
use crate::state::enter;
use driver::sys::{CUlimit, CUresult};
use protocol::{Limit, Reply, Request};

/// What the manager has a limit of for each tenant.
fn own(limit: CUlimit) -> Option<Limit> {
    match limit {
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => Some(Limit::Print),
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => Some(Limit::Heap),
        _ => None,
    }
}

/// The value of another limit that was not set: what the driver starts with.
fn default_limit(limit: CUlimit) -> Result<u64, CUresult> {
    Ok(match limit {
        CUlimit::CU_LIMIT_STACK_SIZE => 1024,
        CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH => 2,
        CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => 2048,
        CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY => 64,
        CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE => 0,
        _ => return Err(CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT),
    })
}

/// Sets a limit. One that is not the tenant's own is over kernels that tenants
/// cannot have, such as those that call themselves, or a hint: it is kept.
fn set(link: &Link, limit: CUlimit, bytes: u64) -> Answer {
    enter(link)?;
    if let Some(limit) = own(limit) {
        return link.done(&Request::SetLimit { limit, bytes });
    }
    default_limit(limit)?;
    link.state.limits.lock().insert(limit.0, bytes);
    Ok(())
}

fn get(link: &Link, limit: CUlimit) -> Result<u64, CUresult> {
    enter(link)?;
    if let Some(limit) = own(limit) {
        return match link.wait(&Request::GetLimit { limit })? {
            Reply::Size(bytes) => Ok(bytes),
            _ => Err(link.astray()),
        };
    }
    let default = default_limit(limit)?;
    let kept = link.state.limits.lock().get(&limit.0).copied();
    Ok(kept.unwrap_or(default))
}

functions! { link;
    fn cuCtxSetLimit(limit: CUlimit, value: usize) {
        set(link, limit, value as u64)
    }
    fn cuCtxGetLimit(value: *mut usize, limit: CUlimit) {
        put(value, get(link, limit)? as usize)
    }
}
