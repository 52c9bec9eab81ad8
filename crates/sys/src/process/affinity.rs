//! Which CPUs a thread, and what it starts, may run on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The numbers of the CPUs that this thread may run on.
///
/// # Errors
/// The kernel's error.
pub fn affinity() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Keeps this thread, and the processes and threads that it starts from now on, on these CPUs.
///
/// # Errors
/// `InvalidInput` for a number past the kernel's set; `EINVAL` when none of them may be used.
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

#[cfg(test)]
mod tests {
    use super::*;

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
