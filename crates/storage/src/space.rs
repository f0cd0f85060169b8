//! Free space: who may still take some.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::log::room::Use;

/// The default reserve: the smaller of this and [`RESERVE_SHARE`] of the disk.
const RESERVE_BYTES_MAX: u64 = 256 << 20;
/// One part in this many.
const RESERVE_SHARE: u64 = 20;

/// The disk's free space and the reserve inside it.
pub(crate) struct Space {
    disk: Arc<dyn Disk>,
    reserve: Option<u64>,
}

impl Space {
    pub(crate) fn new(disk: Arc<dyn Disk>, reserve: Option<u64>) -> Self {
        Self { disk, reserve }
    }

    /// Free bytes, the reserve included.
    pub(crate) fn available(&self) -> Result<u64> {
        self.disk.available().map_err(|e| Error::io("", "asking for free space", e))
    }

    /// Whether `bytes` may be taken; the disk itself may still refuse.
    ///
    /// # Errors
    /// `Full` when only essential use may.
    pub(crate) fn check(&self, bytes: u64, usage: Use) -> Result<()> {
        if usage == Use::Essential {
            return Ok(());
        }
        let (available, reserve) = (self.available()?, self.reserve()?);
        if available.saturating_sub(bytes) >= reserve {
            return Ok(());
        }
        let detail = format!(
            "{bytes} bytes are needed, {available} are free, and {reserve} of them are the reserve"
        );
        Err(Error::full(detail))
    }

    /// Free bytes that only essential use may take.
    pub(crate) fn reserve(&self) -> Result<u64> {
        let Some(reserve) = self.reserve else {
            let capacity = self.disk.capacity();
            let capacity = capacity.map_err(|e| Error::io("", "asking for the disk's size", e))?;
            return Ok(RESERVE_BYTES_MAX.min(capacity / RESERVE_SHARE));
        };
        Ok(reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemDisk;
    use crate::error::Kind;

    #[test]
    fn the_reserve_is_five_percent_of_a_small_disk() {
        let space = Space::new(Arc::new(MemDisk::with_capacity(1_000)), None);
        assert!(space.check(950, Use::Normal).is_ok());
        assert_eq!(space.check(951, Use::Normal).unwrap_err().kind, Kind::Full);
        assert!(space.check(951, Use::Essential).is_ok());
    }

    #[test]
    fn the_reserve_of_a_large_disk_is_limited() {
        let space = Space::new(Arc::new(MemDisk::with_capacity(1 << 40)), None);
        assert_eq!(space.reserve().unwrap(), RESERVE_BYTES_MAX);
    }
}
