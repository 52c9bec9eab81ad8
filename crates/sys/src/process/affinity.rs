//! CPU affinity and nice value of a thread, which processes and threads that it starts inherit.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Numbers of the CPUs that this thread may run on.
///
/// # Errors
/// The kernel's error.
pub fn affinity() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Restricts this thread, and the processes and threads that it starts later, to these CPUs.
///
/// # Errors
/// `InvalidInput` for a number outside the kernel's set; `EINVAL` if none of the CPUs is usable.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Sets the nice value of this thread, and of the processes and threads that it starts later, from
/// -20 (highest priority) to 19 (lowest).
///
/// # Errors
/// `EACCES` if the value is lowered without privilege.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // For Linux process number 0 means the calling thread only.
    Ok(rustix::process::setpriority_process(None, nice)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_gives_way_and_not_the_others() {
        let nice = || {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<String> = text.split(' ').map(str::to_string).collect();
            fields[18].clone()
        };
        let before = nice();
        let inside = std::thread::spawn(move || {
            set_nice(19).unwrap();
            nice()
        });
        assert_eq!(inside.join().unwrap(), "19");
        assert_eq!(nice(), before);
    }

    #[test]
    fn a_thread_keeps_to_the_cpus_it_was_given() {
        std::thread::spawn(|| {
            let first = affinity().unwrap()[0];
            set_affinity(&[first]).unwrap();
            assert_eq!(affinity().unwrap(), vec![first]);
            let inherited = std::thread::spawn(affinity).join().unwrap().unwrap();
            assert_eq!(inherited, vec![first]);
        })
        .join()
        .unwrap();
        assert!(set_affinity(&[]).is_err());
        assert!(set_affinity(&[usize::MAX]).is_err());
    }
}
