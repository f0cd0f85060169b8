//! How the process takes memory from the system.

/// Buffers of at least so many bytes are taken from the system one by one and given back at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: i32 = 256 * 1024;

/// Has glibc give the memory of large buffers back. By itself it stops to do so once it has freed
/// one: it then serves them from its heaps, between small pieces that stay
/// (`docs/decisions/0012`). To be called before there are other threads.
pub(crate) fn give_large_buffers_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "there is no safe way to say this to glibc")]
        // SAFETY: `mallopt` takes two numbers and touches no memory of ours. It must not run while
        // other threads allocate, and there are none yet. It answers 0 when it does not know the
        // option, which changes nothing.
        let _known = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}
