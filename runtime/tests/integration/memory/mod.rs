//! What code takes from the allocator. The allocator counts for all threads, so each of these tests runs in a process of its
//! own, where the harness has no other test. Its main thread still gives back a little while the test begins: what must be
//! exact is counted by thread.

mod allocations;
mod kv_cache;
mod pickle_limits;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what all threads take and give back.
struct Counting;

/// How often memory was taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Bytes that are held.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Bytes that were held at once at most, since this was set.
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Bytes that this thread took, less those that it gave back. Without a destructor, so that the allocator can use it at any
    /// time.
    static HELD_BY_THREAD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    HELD_BY_THREAD.set(HELD_BY_THREAD.get() + bytes as isize);
    TAKEN.fetch_add(1, Relaxed);
    PEAK.fetch_max(HELD.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is handed on to the system's allocator as it is. `realloc` is the default, which allocates anew: the old
// and the new place are counted together, as they exist together.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        HELD_BY_THREAD.set(HELD_BY_THREAD.get() - layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Whether this process runs nothing but `test`, a path such as `memory::kv_cache::name`. If it does not, one that does is
/// started and must succeed: the caller has nothing left to do.
#[track_caller]
fn alone(test: &str) -> bool {
    const MARK: &str = "QSF_TEST_ALONE";
    if std::env::var_os(MARK).is_some_and(|alone| alone == test) {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--test-threads=1", "--nocapture"])
        .env(MARK, test)
        .output()
        .unwrap();
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    // Without a test of this name nothing fails either.
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    print!("{said}");
    false
}
