//! Which launches are checked, by `--launch-skip` and `--launch-count`.

use std::sync::atomic::{AtomicU64, Ordering};

/// `--launch-skip` and `--launch-count`: counts the launches of selected
/// kernels.
#[derive(Debug)]
pub(crate) struct LaunchWindow {
    seen: AtomicU64,
    skip: u64,
    count: u64,
}

impl LaunchWindow {
    pub fn new(skip: u64, count: u64) -> LaunchWindow {
        LaunchWindow {
            seen: AtomicU64::new(0),
            skip,
            count,
        }
    }

    /// Whether it admits every launch, and counts none.
    pub fn is_open(&self) -> bool {
        self.skip == 0 && self.count == 0
    }

    /// Counts a launch; whether it is to be checked.
    #[inline]
    pub fn admits(&self) -> bool {
        if self.is_open() {
            return true;
        }
        let before = self.seen.fetch_add(1, Ordering::Relaxed);
        before >= self.skip && (self.count == 0 || before - self.skip < self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::LaunchWindow;

    #[test]
    fn a_window_of_launches() {
        let admitted = |skip, count| {
            let window = LaunchWindow::new(skip, count);
            (0..6)
                .map(|_| u8::from(window.admits()))
                .collect::<Vec<_>>()
        };
        assert_eq!(admitted(0, 0), [1, 1, 1, 1, 1, 1]);
        assert_eq!(admitted(2, 0), [0, 0, 1, 1, 1, 1]);
        assert_eq!(admitted(1, 2), [0, 1, 1, 0, 0, 0]);
        assert_eq!(admitted(0, 1), [1, 0, 0, 0, 0, 0]);
    }
}
