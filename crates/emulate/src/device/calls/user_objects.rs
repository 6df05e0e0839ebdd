//! User objects: destructors of the program that are called when the last
//! reference is gone. The program and graphs hold references.

use crate::device::basics::Result;
use crate::device::objects::user_objects::{Held, Release, UserObject};
use crate::device::objects::work::Graph;
use crate::device::state::{Device, State};
use driver::sys::CUresult;
use std::sync::{Arc, Weak};

impl Release for State {
    fn release_object(&self, object: u64, count: u32) -> Result<()> {
        let mut objects = self.user_objects.lock();
        let known = objects
            .get_mut(&object)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        known.count = known
            .count
            .checked_sub(count)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if known.count > 0 {
            return Ok(());
        }
        let gone = objects.remove(&object);
        // The destructor may call the device: without the lock.
        drop(objects);
        if let Some(gone) = gone {
            (gone.destroy)();
        }
        Ok(())
    }
}

impl Device {
    /// `cuUserObjectCreate`, with so many references of the program.
    pub fn user_object_create(&self, count: u32, destroy: Box<dyn FnOnce() + Send>) -> Result<u64> {
        if count == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let handle = self.handle();
        let object = UserObject { count, destroy };
        self.state.user_objects.lock().insert(handle, object);
        Ok(handle)
    }

    /// `cuUserObjectRetain`
    pub fn user_object_retain(&self, object: u64, count: u32) -> Result<()> {
        let mut objects = self.state.user_objects.lock();
        let object = objects
            .get_mut(&object)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        object.count = object
            .count
            .checked_add(count)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(())
    }

    /// `cuUserObjectRelease`: without references the object is destroyed.
    pub fn user_object_release(&self, object: u64, count: u32) -> Result<()> {
        self.state.release_object(object, count)
    }

    /// References of an executable graph's own to what a graph refers to.
    pub(crate) fn held_objects(&self, graph: &Graph) -> Held {
        let mut objects: Vec<u64> = graph.objects.lock().keys().copied().collect();
        // (One that the program has released too often is gone already.)
        objects.retain(|object| self.user_object_retain(*object, 1).is_ok());
        let owner: Weak<State> = Arc::downgrade(&self.state);
        Held::new(objects, owner)
    }

    /// `cuGraphRetainUserObject`. `moved`: the caller's references become the
    /// graph's (`CU_GRAPH_USER_OBJECT_MOVE`).
    pub fn graph_retain_object(
        &self,
        graph: u64,
        object: u64,
        count: u32,
        moved: bool,
    ) -> Result<()> {
        let graph = self.graph(graph)?;
        if !moved {
            self.user_object_retain(object, count)?;
        }
        let mut held = graph.objects.lock();
        let held = held.entry(object).or_default();
        *held = held
            .checked_add(count)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(())
    }

    /// `cuGraphReleaseUserObject`
    pub fn graph_release_object(&self, graph: u64, object: u64, count: u32) -> Result<()> {
        let graph = self.graph(graph)?;
        {
            let mut held = graph.objects.lock();
            let held = held
                .get_mut(&object)
                .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
            *held = held
                .checked_sub(count)
                .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        }
        self.user_object_release(object, count)
    }
}
