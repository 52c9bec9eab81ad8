//! Long operations, which run in slices concurrently with later requests.

use super::status::Failed;
use super::{Buffers, Done, Serve, bulk, hash, openssh, walk};
use crate::Code;

/// Maximum number of concurrent jobs.
pub(super) const MAX_JOBS: usize = 64;

/// A long operation that runs concurrently with later requests.
pub(super) enum Job {
    Bulk(bulk::Bulk),
    Hash(Box<hash::Hash>),
    Walk(Box<walk::Walk>),
    Copy(openssh::Copy),
}

impl Job {
    pub(super) fn id(&self) -> u32 {
        match self {
            Self::Bulk(job) => job.id,
            Self::Hash(job) => job.id,
            Self::Walk(job) => job.id,
            Self::Copy(job) => job.id,
        }
    }

    /// Number of directories that the job has open.
    fn open_directories(&self) -> usize {
        match self {
            Self::Walk(job) => job.open(),
            _ => 0,
        }
    }
}

/// Result of a slice of a job.
pub(super) enum Slice {
    /// The job continues; this many bytes were processed.
    More(usize),
    /// The job is complete; a STATUS with OK follows.
    Done,
    /// The job is complete and was answered.
    Answered,
}

impl Serve {
    /// Runs a slice of the first job; returns false if there is none, or if it would have to wait.
    pub(super) fn slice(&mut self, buffers: &mut dyn Buffers) -> bool {
        // Skip a walk whose window is used up.
        let goes_on = |job: &Job| !matches!(job, Job::Walk(walk) if walk.is_held());
        let Some(at) = self.jobs.iter().position(goes_on) else {
            return false;
        };
        let open: usize = self.jobs.iter().map(Job::open_directories).sum();
        let Some(mut job) = self.jobs.remove(at) else {
            return false;
        };
        let others = self.handles.len() + open - job.open_directories();
        let id = job.id();
        let sliced = match &mut job {
            Job::Bulk(job) => job.slice(&mut self.out, buffers),
            Job::Hash(job) => job.slice(&mut self.out, buffers),
            Job::Walk(job) => {
                let around = walk::Around {
                    place: &self.place,
                    log: &*self.log,
                    exact: self.exact_times,
                    room: self.handles.max().saturating_sub(others),
                };
                Ok(job.slice(&around, &mut self.out, buffers))
            }
            Job::Copy(job) => job.slice(),
        };
        match sliced {
            Ok(Slice::More(bytes)) => {
                self.moved += bytes;
                match job {
                    Job::Copy(_) => self.jobs.push_front(job),
                    _ => self.jobs.push_back(job),
                }
            }
            Ok(Slice::Done) => self.ok(id, buffers),
            Ok(Slice::Answered) => {}
            Err(failed) => self.fail(id, &failed, buffers),
        }
        true
    }

    pub(super) fn has_room_for_job(&self) -> Done {
        match self.jobs.len() < MAX_JOBS {
            true => Ok(()),
            false => Err(Failed::new(Code::FAILURE, "too many requests in progress")),
        }
    }

    pub(super) fn begin_job(&mut self, job: Job) -> Done {
        self.has_room_for_job()?;
        self.jobs.push_back(job);
        Ok(())
    }
}
