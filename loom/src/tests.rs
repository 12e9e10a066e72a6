use loom::cell::UnsafeCell;
use loom::sync::{Arc, mpsc};
use loom::thread;

use crate::gate::Gate;

/// What owner and workers share. Loom reports two accesses at once of which one writes, unless they are ordered.
struct Shared {
    gate: Gate,
    /// Written by the owner before a region opens, read by workers inside of it.
    task: UnsafeCell<usize>,
    /// One for each worker: the sum of the tasks of all regions that it was in.
    sums: Vec<UnsafeCell<usize>>,
}

impl Shared {
    fn new(workers: usize) -> Shared {
        let sums = (0..workers).map(|_| UnsafeCell::new(0)).collect();
        Shared { gate: Gate::default(), task: UnsafeCell::new(0), sums }
    }

    /// A worker's life, as in `pool.rs`.
    fn help(&self, worker: usize) {
        let mut last = None;
        while self.gate.enter(&mut last) {
            // SAFETY: loom checks it.
            let task = self.task.with(|task| unsafe { *task });
            // SAFETY: loom checks it.
            self.sums[worker].with_mut(|sum| unsafe { *sum += task });
            self.gate.leave();
        }
    }

    /// The owner's part of a region: what all workers have added up when it is over.
    fn run(&self, task: usize) -> usize {
        // SAFETY: loom checks it.
        self.task.with_mut(|place| unsafe { *place = task });
        self.gate.open();
        self.gate.close();
        // SAFETY: loom checks it.
        self.sums.iter().map(|sum| sum.with(|sum| unsafe { *sum })).sum()
    }
}

/// A pool of `workers` that runs `regions` and is dropped. `preemptions`: how often a thread is interrupted at most where it could
/// go on; `None` is any number.
fn check(workers: usize, regions: usize, preemptions: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let shared = Arc::new(Shared::new(workers));
        let threads: Vec<_> = (0..workers)
            .map(|worker| {
                let shared = shared.clone();
                thread::spawn(move || shared.help(worker))
            })
            .collect();
        let mut all = 0;
        for region in 0..regions {
            // Powers of a number above that of workers: the sum says how many were in which region.
            let task = (workers + 1).pow(region as u32);
            let sum = shared.run(task);
            assert_eq!((sum - all) % task, 0, "a worker took the task of another region");
            assert!((sum - all) / task <= workers, "a worker was in a region twice");
            all = sum;
        }
        shared.gate.shut();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Here the owner's part of each region ends only when the worker has come: one that is not woken is never seen, and loom reports
/// that all threads wait.
#[test]
fn a_worker_that_sleeps_or_is_about_to_is_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let gate = Arc::new(Gate::default());
        let (arrived, arrivals) = mpsc::channel();
        let worker = {
            let gate = gate.clone();
            thread::spawn(move || {
                let mut last = None;
                while gate.enter(&mut last) {
                    arrived.send(()).unwrap();
                    gate.leave();
                }
            })
        };
        for _ in 0..2 {
            gate.open();
            arrivals.recv().unwrap();
            gate.close();
        }
        gate.shut();
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_comes_goes_and_sleeps_in_every_order() {
    check(1, 1, Some(4));
}

#[test]
fn a_worker_is_in_one_region_after_the_other() {
    check(1, 2, Some(3));
}

#[test]
fn two_workers_share_a_region() {
    check(2, 1, Some(2));
}

#[test]
fn two_workers_share_regions_and_one_may_be_late() {
    check(2, 2, Some(1));
}

#[test]
fn a_gate_that_nobody_opened_lets_its_workers_go() {
    check(2, 0, Some(3));
}
