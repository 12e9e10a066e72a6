use std::cell::RefCell;
use std::collections::HashSet;
use std::hint::spin_loop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::*;

/// Worth all threads.
const LARGE: usize = usize::MAX;

/// So many rounds of what should go wrong at some time; a few under Miri (scripts/test_miri), which looks at each step.
const fn rounds(count: u32) -> u32 {
    if cfg!(miri) { count.div_ceil(100) } else { count }
}

fn pool(threads: usize) -> Pool {
    Pool::new(threads, Pinning::Free).unwrap()
}

/// Does nothing for so long, awake.
fn pause(duration: Duration) {
    let started = Instant::now();
    while started.elapsed() < duration {
        spin_loop();
    }
}

/// Waits until `threads` have come here: only where all of them take part in a region does it end.
///
/// Asleep: where more threads wait by `sched_yield` than there are processors, Linux 6.18 may leave a third one out for a
/// minute ("sched/fair: Fix zero_vruntime tracking fix").
fn meet(arrived: &AtomicUsize, threads: usize) {
    arrived.fetch_add(1, Ordering::Relaxed);
    let started = Instant::now();
    while arrived.load(Ordering::Relaxed) < threads {
        assert!(started.elapsed() < Duration::from_secs(300), "a thread of the pool does not come");
        thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn every_task_runs_once_whatever_their_number_and_that_of_threads() {
    for threads in [1, 2, 3, 4, 7, 16] {
        let pool = pool(threads);
        assert_eq!(pool.threads(), threads);
        for tasks in (0..rounds(40) as usize).chain([100, 1001]) {
            let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool.for_each(tasks, LARGE, |i| _ = runs[i].fetch_add(1, Ordering::Relaxed));
            let once = runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1);
            assert!(once, "{threads} threads, {tasks} tasks");
        }
    }
}

#[test]
fn every_unit_is_in_one_part_of_the_sizes_that_were_asked_for() {
    for threads in [1, 2, 3, 7, 40] {
        let pool = pool(threads);
        for units in (0..rounds(40) as usize).chain([100, 1001]) {
            for sizes in [1..=1, 1..=4, 3..=usize::MAX, 2..=2] {
                // Small work is done by this thread alone.
                for work in [1, LARGE] {
                    let runs: Vec<AtomicUsize> = (0..units).map(|_| AtomicUsize::new(0)).collect();
                    let short = AtomicUsize::new(0);
                    pool.for_each_part(units, sizes.clone(), work, |part| {
                        assert!(!part.is_empty() && part.len() <= *sizes.end(), "{part:?} of {sizes:?}");
                        short.fetch_add(usize::from(part.len() < *sizes.start()), Ordering::Relaxed);
                        part.for_each(|i| _ = runs[i].fetch_add(1, Ordering::Relaxed));
                    });
                    let once = runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1);
                    assert!(once, "{threads} threads, {units} units in parts of {sizes:?}");
                    // The last of each run.
                    assert!(short.load(Ordering::Relaxed) <= threads, "{units} units in parts of {sizes:?}");
                }
            }
        }
    }
}

#[test]
fn parts_are_in_a_row_and_become_smaller_and_no_thread_is_left_without() {
    let pool = pool(2);
    let (first, last) = (AtomicBool::new(false), AtomicBool::new(false));
    let order = Mutex::new(Vec::new());
    pool.for_each_part(180, 2..=usize::MAX, LARGE, |part| {
        // Both threads are there before either goes on: the first parts are those of two runs.
        match part.start {
            0 => first.store(true, Ordering::SeqCst),
            90 => last.store(true, Ordering::SeqCst),
            _ => {}
        }
        let began = Instant::now();
        while [&first, &last].iter().any(|seen| !seen.load(Ordering::SeqCst)) {
            assert!(began.elapsed() < Duration::from_secs(300), "the threads do not have a run each");
            thread::yield_now();
        }
        // A thread that is held up leaves the rest of its run to the other one.
        if part.start == 0 {
            while order.lock().unwrap().iter().map(Range::len).sum::<usize>() < 150 {
                thread::sleep(Duration::from_micros(50));
            }
        }
        order.lock().unwrap().push(part);
    });
    let order = order.into_inner().unwrap();
    assert_eq!(order.last(), Some(&(0..30)), "a third of the run");
    let second: Vec<Range<usize>> = order.into_iter().filter(|part| part.start >= 90).collect();
    assert_eq!(second[..3], [90..120, 120..140, 140..153], "a third of what is left");
    assert!(second.windows(2).all(|two| two[0].end == two[1].start), "{second:?}");
    assert!(second.iter().all(|part| part.len() >= 2 || part.end == 180), "{second:?}");
}

#[test]
#[should_panic(expected = "parts of 0..=3 units")]
fn parts_of_nothing_are_refused() {
    pool(2).for_each_part(10, 0..=3, LARGE, |_| {});
}

/// What workers write in a region must be seen after it, and what was written before it in it, region after region.
#[test]
fn memory_passes_into_a_region_and_out_of_it() {
    for threads in [2, 3, 5] {
        let pool = pool(threads);
        let (mut values, mut next) = (vec![0.0f32; 37], vec![0.0f32; 37]);
        for region in 0..rounds(4_000) {
            pool.for_each_chunk(&mut next, 5, LARGE, |chunk, out| {
                for (value, out) in values[5 * chunk..].iter().zip(out) {
                    *out = value + 1.0;
                }
            });
            std::mem::swap(&mut values, &mut next);
            assert!(
                values.iter().all(|&value| value == (region + 1) as f32),
                "{threads} threads, region {region}"
            );
        }
    }
}

#[test]
fn chunks_are_those_of_the_slice_and_the_last_may_be_short() {
    for (threads, len, chunk) in [(1, 10, 4), (2, 10, 4), (2, 12, 4), (3, 1, 4), (3, 0, 4), (2, 10, 1)] {
        let mut out = vec![f32::NAN; len];
        pool(threads).for_each_chunk(&mut out, chunk, LARGE, |i, out| {
            assert_eq!(out.len(), chunk.min(len - i * chunk));
            out.fill(i as f32);
        });
        let expected: Vec<f32> = (0..len).map(|i| (i / chunk) as f32).collect();
        assert_eq!(out, expected, "{threads} threads, {len} in chunks of {chunk}");
    }
}

#[test]
fn small_work_and_a_pool_of_one_stay_on_the_calling_thread_in_order() {
    for (threads, work) in [(1, LARGE), (3, 100)] {
        let order = Mutex::new(Vec::new());
        pool(threads).for_each(50, work, |i| order.lock().unwrap().push((thread::current().id(), i)));
        let expected: Vec<_> = (0..50).map(|i| (thread::current().id(), i)).collect();
        assert_eq!(order.into_inner().unwrap(), expected);
    }
}

/// A worker that misses a wake-up is never seen again. The pauses lie around the time after which workers go to sleep.
#[test]
fn all_threads_come_after_any_pause() {
    for threads in [2, 3, 8] {
        let pool = pool(threads);
        for round in 0..rounds(300) {
            pause(Duration::from_micros(round.into()));
            let arrived = AtomicUsize::new(0);
            pool.for_each(threads, LARGE, |_| meet(&arrived, threads));
        }
        for _ in 0..rounds(20) {
            thread::sleep(Duration::from_millis(2));
            let arrived = AtomicUsize::new(0);
            pool.for_each(threads, LARGE, |_| meet(&arrived, threads));
        }
    }
}

/// Waiting for tasks that take about as long as the owner stays awake, or far longer.
#[test]
fn the_owner_waits_for_slow_workers() {
    let pool = pool(3);
    let owner = thread::current().id();
    for round in 0..rounds(200) {
        let pause_of_workers = Duration::from_micros(if round % 20 == 0 { 5_000 } else { round.into() });
        let (arrived, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        pool.for_each(3, LARGE, |_| {
            meet(&arrived, 3);
            if thread::current().id() != owner {
                pause(pause_of_workers);
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 3);
    }
}

fn ran_on(pool: &Pool, tasks: usize) -> HashSet<ThreadId> {
    let threads = Mutex::new(HashSet::new());
    pool.for_each(tasks, LARGE, |_| {
        threads.lock().unwrap().insert(thread::current().id());
    });
    threads.into_inner().unwrap()
}

#[test]
fn a_region_inside_a_task_runs_on_the_thread_of_the_task() {
    let pool = pool(3);
    for _ in 0..rounds(100) {
        let (arrived, inner) = (AtomicUsize::new(0), AtomicUsize::new(0));
        pool.for_each(3, LARGE, |_| {
            meet(&arrived, 3);
            assert_eq!(ran_on(&pool, 5), HashSet::from([thread::current().id()]));
            inner.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(inner.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn a_pool_can_be_used_by_several_threads_at_once_and_by_one_after_the_other() {
    let pool = pool(3);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for tasks in (0..rounds(3_000) as usize).map(|i| i % 23) {
                    let sum = AtomicUsize::new(0);
                    pool.for_each(tasks, LARGE, |i| {
                        sum.fetch_add(i + 1, Ordering::Relaxed);
                    });
                    assert_eq!(sum.into_inner(), tasks * (tasks + 1) / 2);
                }
            });
        }
    });
}

#[test]
fn a_panic_of_a_task_reaches_the_caller_and_the_pool_goes_on() {
    let pool = pool(3);
    let owner = thread::current().id();
    for by_owner in [true, false] {
        for _ in 0..rounds(20) {
            let arrived = AtomicUsize::new(0);
            let region = || {
                pool.for_each(100, LARGE, |i| {
                    if i < 3 {
                        meet(&arrived, 3);
                        assert!((thread::current().id() == owner) != by_owner, "task {i} fails");
                    }
                });
            };
            let panic = catch_unwind(AssertUnwindSafe(region)).expect_err("the panic is not lost");
            let said = panic.downcast_ref::<String>().unwrap();
            assert!(said.starts_with("task ") && said.ends_with(" fails"), "{said}");
        }
        let arrived = AtomicUsize::new(0);
        pool.for_each(3, LARGE, |_| meet(&arrived, 3));
    }
}

#[test]
fn dropping_a_pool_ends_its_threads() {
    struct CountsEnds(Arc<AtomicUsize>);
    impl Drop for CountsEnds {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local! {
        static LOCAL: RefCell<Option<CountsEnds>> = const { RefCell::new(None) };
    }
    for asleep in [false, true] {
        let ended = Arc::new(AtomicUsize::new(0));
        let (pool, owner) = (pool(4), thread::current().id());
        let arrived = AtomicUsize::new(0);
        pool.for_each(4, LARGE, |_| {
            meet(&arrived, 4);
            if thread::current().id() != owner {
                LOCAL.set(Some(CountsEnds(ended.clone())));
            }
        });
        if asleep {
            thread::sleep(Duration::from_millis(5));
        }
        drop(pool);
        assert_eq!(ended.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn a_pool_that_was_never_used_can_be_dropped() {
    for threads in 1..6 {
        drop(pool(threads));
    }
}

#[test]
fn impossible_numbers_of_threads_are_errors() {
    for threads in [0, MAX_THREADS + 1, usize::MAX] {
        let error = Pool::new(threads, Pinning::Free).unwrap_err().to_string();
        assert!(error.contains(&threads.to_string()), "{error}");
    }
    let error = Pool::new(MAX_THREADS, Pinning::Cores).unwrap_err();
    let told = matches!(error, PoolError::TooFewCores { threads: MAX_THREADS, cores } if cores > 0);
    assert_eq!(told, physical_cores().is_some_and(|cores| cores.len() < MAX_THREADS), "{error}");
}

/// On a thread of its own, since it is pinned as well.
#[test]
fn pinned_threads_run_on_the_cores_one_each() {
    let Some(cores) = physical_cores() else {
        println!("skipped: this system does not tell its cores");
        return;
    };
    let threads = cores.len().min(4);
    let seen = thread::spawn(move || {
        let pool = Pool::new(threads, Pinning::Cores).unwrap();
        let (arrived, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        pool.for_each(threads, LARGE, |_| {
            meet(&arrived, threads);
            seen.lock().unwrap().push(allowed_processors());
        });
        seen.into_inner().unwrap()
    });
    let mut seen = seen.join().unwrap();
    seen.sort();
    let expected: Vec<_> = cores[..threads].iter().map(|&core| vec![core]).collect();
    assert_eq!(seen, expected);
}

#[cfg(target_os = "linux")]
fn allowed_processors() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed_processors() -> Vec<usize> {
    Vec::new()
}

#[test]
fn the_default_is_a_thread_for_each_core_that_may_be_used() {
    let threads = default_threads();
    let available = thread::available_parallelism().unwrap().get();
    assert!((1..=available).contains(&threads), "{threads} threads on {available} processors");
    assert_eq!(Pool::of_process().threads(), threads);
    assert!(Arc::ptr_eq(&Pool::of_process(), &Pool::of_process()), "there is one");
}
