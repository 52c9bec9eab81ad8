//! The worker controller on simulated machines: its decisions, and the cost of its trials.

// Simulated times are a few seconds.
#![allow(clippy::cast_possible_truncation)]

use crate::{Sample, WorkerController};

/// A simulated machine, described by the cost of 256 KiB.
#[derive(Clone, Copy)]
struct Machine {
    /// The owner's work outside jobs, µs.
    own_us: f64,
    /// The jobs' time on one core, µs.
    jobs_us: f64,
    /// The owner's cost of queuing a batch, µs.
    handing_us: f64,
    /// Minimum time that other parties need, µs; the owner sleeps for the rest.
    others_us: f64,
    /// Number of idle cores.
    idle_cores: f64,
    /// Whether the idle time of the cores can be read.
    tells_idle: bool,
}

const ALONE: Machine = Machine {
    own_us: 120.0,
    jobs_us: 180.0,
    handing_us: 3.0,
    others_us: 0.0,
    idle_cores: 8.0,
    tells_idle: true,
};

impl Machine {
    /// Returns the time for 256 KiB with `workers`, and the owner's part of it in jobs.
    fn costs(&self, workers: f64) -> (f64, f64) {
        let free = workers.min(self.idle_cores);
        // A worker without its own core slows down everything.
        let squeezed = workers - free;
        if workers == 0.0 {
            return (
                (self.own_us + self.jobs_us).max(self.others_us),
                self.jobs_us,
            );
        }
        let own = self.own_us + self.handing_us;
        // The owner runs the jobs that the workers cannot keep up with.
        let helped = ((self.jobs_us - free * own) / (free + 1.0)).max(0.0);
        let wall = own + helped + squeezed * 0.3 * self.jobs_us;
        (wall.max(self.others_us), helped)
    }
}

struct Run {
    controller: WorkerController,
    now_us: f64,
    idle_us: f64,
    bytes: u64,
}

impl Run {
    fn new(most: usize) -> Self {
        Self {
            controller: WorkerController::auto(most),
            now_us: 1000.0,
            idle_us: 0.0,
            bytes: 0,
        }
    }

    /// Simulates `machine` for `ms` milliseconds; returns the rate in bytes per µs.
    fn work(&mut self, machine: Machine, ms: f64) -> f64 {
        let (begun, bytes) = (self.now_us, self.bytes);
        let mut seed = 1_u64;
        while self.now_us < begun + ms * 1000.0 {
            let workers = f64::from(u32::try_from(self.controller.workers()).unwrap());
            let (wall, jobs) = machine.costs(workers);
            // ±3 % noise.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let wall = wall * (0.97 + 0.06 * (seed >> 40) as f64 / f64::from(1 << 24));
            let busy = machine.own_us + jobs;
            self.now_us += wall;
            self.idle_us += wall * (machine.idle_cores - workers).max(0.0);
            self.bytes += 256 * 1024;
            let idle = machine.tells_idle.then_some(self.idle_us as u64);
            let sample = Sample {
                now_us: self.now_us as u64,
                bytes: 256 * 1024,
                jobs_us: jobs as u64,
                asleep_us: (wall - busy).max(0.0) as u64,
            };
            self.controller.note(sample, &mut || idle);
        }
        (self.bytes - bytes) as f64 / (self.now_us - begun)
    }
}

fn alone_rate(machine: Machine) -> f64 {
    256.0 * 1024.0 / machine.costs(0.0).0
}

#[test]
fn free_cores_are_used_while_each_brings_something_and_no_longer() {
    let mut run = Run::new(7);
    run.work(ALONE, 3000.0);
    let kept = run.controller.workers();
    let rate = run.work(ALONE, 10_000.0);
    assert!((1..=3).contains(&kept), "{kept} workers");
    // The owner's own 120 µs are the limit.
    assert!(
        rate > 1.9 * alone_rate(ALONE),
        "{rate} against {} alone",
        alone_rate(ALONE)
    );
}

#[test]
fn cores_that_are_all_busy_are_left_alone() {
    let machine = Machine {
        idle_cores: 0.0,
        ..ALONE
    };
    let mut run = Run::new(1);
    let rate = run.work(machine, 20_000.0);
    assert_eq!(run.controller.workers(), 0);
    assert!(rate > 0.995 * alone_rate(machine));
}

#[test]
fn where_idle_time_cannot_be_read_trials_that_are_lost_cost_less_than_a_hundredth() {
    let machine = Machine {
        idle_cores: 0.0,
        tells_idle: false,
        ..ALONE
    };
    let mut run = Run::new(1);
    // A short transfer sees no trial.
    let rate = run.work(machine, 2000.0);
    assert!(rate > 0.999 * alone_rate(machine));
    let rate = run.work(machine, 10_000.0);
    assert!(
        rate > 0.99 * alone_rate(machine),
        "{rate} against {}",
        alone_rate(machine)
    );
    let rate = run.work(machine, 60_000.0);
    assert!(rate > 0.998 * alone_rate(machine));
}

#[test]
fn jobs_that_take_next_to_nothing_are_not_given_away() {
    let machine = Machine {
        jobs_us: 10.0,
        ..ALONE
    };
    let mut run = Run::new(7);
    let rate = run.work(machine, 5000.0);
    assert_eq!(run.controller.workers(), 0);
    assert!(rate > 0.999 * alone_rate(machine));
}

#[test]
fn an_owner_that_waits_for_the_network_needs_no_worker() {
    let machine = Machine {
        others_us: 500.0,
        ..ALONE
    };
    let mut run = Run::new(7);
    run.work(machine, 5000.0);
    assert_eq!(run.controller.workers(), 0);
}

#[test]
fn workers_are_given_up_when_the_cores_are_taken_away() {
    let mut run = Run::new(1);
    run.work(ALONE, 3000.0);
    assert_eq!(run.controller.workers(), 1);
    let busy = Machine {
        idle_cores: 0.0,
        ..ALONE
    };
    run.work(busy, 200.0);
    assert_eq!(run.controller.workers(), 0);
    let rate = run.work(busy, 10_000.0);
    assert!(rate > 0.99 * alone_rate(busy));
    // The worker returns some time after the cores are idle again.
    run.work(ALONE, 20_000.0);
    assert_eq!(run.controller.workers(), 1);
}

#[test]
fn workers_are_given_up_when_something_else_becomes_the_bottleneck() {
    let mut run = Run::new(1);
    run.work(ALONE, 3000.0);
    assert_eq!(run.controller.workers(), 1);
    let throttled = Machine {
        others_us: 1000.0,
        ..ALONE
    };
    run.work(throttled, 500.0);
    assert_eq!(run.controller.workers(), 0);
}

#[test]
fn a_number_that_was_asked_for_is_the_number() {
    let mut controller = WorkerController::fixed(3);
    assert!(!controller.wants_samples());
    controller.note(Sample::default(), &mut || None);
    assert_eq!(controller.workers(), 3);
    let none = WorkerController::auto(0);
    assert!(!none.wants_samples());
    assert_eq!(none.workers(), 0);
}
