//! What it costs to spread work over threads, by our pool and by rayon: `cargo bench -p qsf-runtime --bench threads`.
//!
//! - *All threads meet*: as many tasks as threads, each of which waits until all have begun. From the call to its return every
//!   thread has come and gone, and nothing was computed.
//! - *Shared work*: eight tasks of a microsecond per thread, as the matrices of a small model are; the time beyond what
//!   perfect sharing would take.
//!
//! Each right after the last region, and after a pause in which threads go to sleep. Without criterion, because
//! alternating the candidates within each round is what makes their ratio mean something on a machine that is not idle.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use qsf_runtime::cpu::threads::{Pinning, Pool, default_threads};
use rayon::prelude::*;

const ROUNDS: usize = 60;
const TASKS_PER_THREAD: usize = 8;

/// Runs `task` for each index below `tasks`.
type Spread<'a> = &'a dyn Fn(usize, &(dyn Fn(usize) + Sync));

fn main() {
    let threads = default_threads().max(2);
    let pool = Pool::new(threads, Pinning::Free).expect("threads");
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let ours: Spread<'_> = &|tasks, task| pool.for_each(tasks, usize::MAX, task);
    // From a thread outside of its pool, as programs call it.
    let other: Spread<'_> =
        &|tasks, task| rayon.install(|| (0..tasks).into_par_iter().with_max_len(1).for_each(task));
    let candidates = [("ours", ours), ("rayon", other)];
    println!("{threads} threads; microseconds: best, quarter, median, three quarters of {ROUNDS} rounds");
    for (pause, regions) in [(Duration::from_micros(3), 100), (Duration::from_millis(1), 5)] {
        println!("\n{} us after the last region", pause.as_micros());
        let all_meet = |spread: Spread<'_>| {
            let arrived = AtomicUsize::new(0);
            spread(threads, &|_| {
                arrived.fetch_add(1, Ordering::Relaxed);
                while arrived.load(Ordering::Relaxed) < threads {
                    spin_loop();
                }
            });
        };
        report("all threads meet", &candidates, |spread| measure(regions, pause, || all_meet(spread)));
        let tasks = TASKS_PER_THREAD * threads;
        report("shared work", &candidates, |spread| {
            let perfect = measure(20, Duration::ZERO, || (0..tasks).for_each(microsecond)) / threads as f64;
            measure(regions, pause, || spread(tasks, &microsecond)) - perfect
        });
    }
}

/// About a microsecond of work.
fn microsecond(_task: usize) {
    for i in 0..4_000 {
        black_box(i);
    }
}

/// Mean microseconds of a call, each after a pause.
fn measure(calls: usize, pause: Duration, call: impl Fn()) -> f64 {
    let mut total = Duration::ZERO;
    for _ in 0..calls {
        let started = Instant::now();
        while started.elapsed() < pause {
            spin_loop();
        }
        let started = Instant::now();
        call();
        total += started.elapsed();
    }
    total.as_secs_f64() * 1e6 / calls as f64
}

fn report(what: &str, candidates: &[(&str, Spread<'_>)], one: impl Fn(Spread<'_>) -> f64) {
    let mut times = vec![Vec::new(); candidates.len()];
    for _ in 0..ROUNDS {
        for ((_, spread), times) in candidates.iter().zip(&mut times) {
            times.push(one(*spread));
        }
    }
    for ((name, _), times) in candidates.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let [best, quarter, median, more] = [0, 1, 2, 3].map(|i| times[i * (ROUNDS - 1) / 4]);
        println!("{what:17} {name:6} {best:8.2} {quarter:8.2} {median:8.2} {more:8.2}");
    }
}
