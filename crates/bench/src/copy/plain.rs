//! A file over plain TCP: read, sent, received, written, by one thread at each end; and the same
//! with AES-GCM and nothing else of SSH, neither packets nor a login: what a copy that encrypts is
//! to be measured by.

use std::process::Stdio;
use std::time::Instant;

use super::{CopyJob, CopyStand, Peak, Spent, trees};
use crate::figures::{BenchEntry, Cpu, EntryKind};
use crate::harness::ServerHost;
use crate::options::BenchDirection;
use crate::roles;
use crate::rounds::Miss;
use crate::transfer::{self, same_bytes};
use crate::words::{StderrReader, Watch, kill};

/// In which form the file is on its way: the entry's name, and the word for the far end's role.
const FORMS: [(&str, &str); 2] = [
    ("plain TCP, file to file", roles::PLAIN),
    ("plain TCP with AES-GCM, file to file", roles::SEALED),
];

pub(super) fn entries() -> [BenchEntry; 2] {
    FORMS.map(|(name, _)| BenchEntry::new(name, EntryKind::Limit))
}

impl CopyStand<'_> {
    /// One copy from start to exit, in the form of the entry of this number, with its far end at a
    /// place; compared.
    pub(super) fn plain(
        &self,
        server: &ServerHost,
        job: CopyJob,
        entry: usize,
    ) -> Result<Spent, Miss> {
        let (_, form) = *FORMS.get(entry).ok_or("no such form")?;
        let (sent, arrived) = (self.files.sent(), self.files.arrived());
        trees::remove(&arrived)?;
        let (near_way, far_way, near_file, far_file) = match job.direction {
            BenchDirection::Up => (roles::GOES, roles::COMES, &sent, &arrived),
            BenchDirection::Down => (roles::COMES, roles::GOES, &arrived, &sent),
        };
        let far_file = far_file.to_str().ok_or("a path that is not UTF-8")?;
        let far = ("file-server", &[far_way, form, far_file][..]);
        let mut ends = transfer::relay_ends(far, "file-client", server)?;
        ends.near
            .arg(near_way)
            .arg(form)
            .arg(near_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let begun = Instant::now();
        let near = self.near.spawn(ends.near)?;
        let words = StderrReader::listen(ends.words);
        let watch = Watch::start(near.id());
        let (status, usage) = sys::process::wait_usage(near)?;
        let seconds = begun.elapsed().as_secs_f64();
        let stuck = watch.stop();
        if stuck || !status.is_success() {
            // It may wait for a client.
            kill(ends.far.id());
        }
        let (_, far_usage) = sys::process::wait_usage(ends.far)?;
        let same = same_bytes(&sent, &arrived);
        trees::remove(&arrived)?;
        if stuck || !status.is_success() {
            return Err(words.all().complaint(&format!("{status:?}")).into());
        }
        if !same? {
            return Err("the arrived bytes differ from the sent ones".into());
        }
        Ok(Spent {
            seconds,
            cpu: Cpu {
                client: usage.total().as_secs_f64(),
                server: far_usage.total().as_secs_f64(),
            },
            peak: Peak::default(),
        })
    }
}
