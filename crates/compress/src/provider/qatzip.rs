//! QATzip (libqatzip.so.3), the way to Intel's QuickAssist accelerators, loaded into this process.
//!
//! It has no zlib interface that streams. What it has is asked for so that its output fits into a
//! stream: raw deflate (`QZ_DEFLATE_RAW`), each payload by itself and without history, and `last` 0,
//! for which the device makes a full flush: the output ends on a byte and never has BFINAL. What does
//! not is refused. Its own fall-back to software is switched off, and what would go there all the
//! same, payloads below its least size and level 9 on older devices, is not given to it: software we
//! have, and who asked for a device is told that there is none.
//!
//! The layout of its parameters has grown with its versions, and its version is not to be had from
//! it. So it is found in what `qzGetDefaultsDeflate` writes ([`Layout::find`]).
//!
//! As with `library`, nothing that it says is believed that can be seen, and no process that holds
//! anything of value loads it. How it is loaded is in `loader`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};

use super::loader::{Handle, LibraryError, clear_errno, file_of, system_error};
use super::stored::{SYNC_END, deflated_or_stored, store};
use super::{Flush, Run, RunEncoder, RunError, Verifier};

/// How it is called where a function of it is missing.
const NAME: &str = "QATzip";

/// qatzip.h's `QZ_OK`.
const QZ_OK: c_int = 0;
/// qatzip.h's `QZ_DUPLICATE`: this process has done that before.
const QZ_DUPLICATE: c_int = 1;
/// qatzip.h's `QZ_NOSW_NO_INST_ATTACH`: the process's instances are all at work.
const QZ_NOSW_NO_INST_ATTACH: c_int = -103;
/// qatzip.h's `QZ_DIR_COMPRESS`.
const QZ_DIR_COMPRESS: u32 = 0;
/// qatzip.h's `QZ_DEFLATE`.
const QZ_DEFLATE: u8 = 8;
/// qatzip.h's `QZ_DEFLATE_RAW`, the highest of its formats for deflate.
const QZ_DEFLATE_RAW: u32 = 3;
/// qatzip.h's `QZ_STATIC_HDR`, the higher of two.
const QZ_STATIC_HDR: u32 = 1;
/// qatzip.h's `QZ_COMP_THRESHOLD_MINIMUM`: the shortest input that a device can be asked to take,
/// bytes. What is shorter goes to QATzip's software, whatever is asked for.
const LEAST_BYTES: usize = 128;
/// Space for a payload beyond what static codes take.
const SPARE_BYTES: usize = 1024;
/// The highest level that goes to the device everywhere: with drivers of QAT 1.x, 9 means software.
const MAX_LEVEL: u8 = 8;
/// qatzip.h's `QZ_SW_EXECUTION_MASK` and `QZ_TIMEOUT_MASK`: software has done it, at once or because
/// the device did not answer.
const BY_SOFTWARE: u64 = 1 << 4 | 1 << 8;

/// Devices by which QAT is reached, beside those in [`DEVICE_FOLDER`].
const DEVICES: &[&str] = &[
    "/dev/qat_adf_ctl",
    "/dev/qat_dev_processes",
    "/dev/usdm_drv",
];
/// Where VFIO's devices are.
const DEVICE_FOLDER: &str = "/dev/vfio";

/// `QzSession_T` as qatzip.h lays it out on LP64.
#[repr(C)]
struct QzSession {
    hw_session_stat: c_long,
    thd_sess_stat: c_int,
    internal: *mut c_void,
    total_in: c_ulong,
    total_out: c_ulong,
}

impl QzSession {
    fn empty() -> Self {
        Self {
            hw_session_stat: 0,
            thd_sess_stat: 0,
            internal: std::ptr::null_mut(),
            total_in: 0,
            total_out: 0,
        }
    }
}

/// What no field of its parameters begins or ends with.
const UNTOUCHED: u8 = 0xa5;
/// More than its parameters have ever taken (56 bytes).
const PARAMETER_BYTES: usize = 256;

/// `QzSessionParamsDeflate_T`, with room for a longer one.
#[repr(C, align(8))]
struct Parameters([u8; PARAMETER_BYTES]);

impl Parameters {
    fn untouched() -> Self {
        Self([UNTOUCHED; PARAMETER_BYTES])
    }

    fn number(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    fn set_number(&mut self, at: usize, number: u32) {
        if let Some(bytes) = self.0.get_mut(at..at + 4) {
            bytes.copy_from_slice(&number.to_ne_bytes());
        }
    }
}

/// Where in its parameters a version of QATzip has what we set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// `data_fmt`, which is last.
    format_at: usize,
}

impl Layout {
    const DIRECTION_AT: usize = 0;
    const LEVEL_AT: usize = 4;
    const ALGORITHM_AT: usize = 8;
    const SOFTWARE_AT: usize = 16;
    const BUFFER_AT: usize = 20;
    const THRESHOLD_AT: usize = 28;
    /// Behind the fields that all versions have.
    const COMMON_END: usize = 40;

    /// Looks for it in `defaults`, which were [`UNTOUCHED`] before the library wrote them. `None` for
    /// what no known version writes.
    fn find(defaults: &Parameters) -> Option<Self> {
        let written = defaults.0.iter().rposition(|byte| *byte != UNTOUCHED)? + 1;
        let format_at = written.checked_sub(4).filter(|at| at % 4 == 0)?;
        let huffman_at = format_at.checked_sub(4)?;
        let number = |at| defaults.number(at);
        let is_known = huffman_at >= Self::COMMON_END
            && number(format_at)? <= QZ_DEFLATE_RAW
            && number(huffman_at)? <= QZ_STATIC_HDR
            && number(Self::DIRECTION_AT)? <= 2
            && (1..=12).contains(&number(Self::LEVEL_AT)?)
            && defaults.0.get(Self::ALGORITHM_AT) == Some(&QZ_DEFLATE)
            && number(Self::BUFFER_AT)?.is_power_of_two()
            && number(Self::THRESHOLD_AT)? >= 128;
        is_known.then_some(Self { format_at })
    }

    /// Sets in `parameters` what we ask for.
    fn ask(self, parameters: &mut Parameters, level: u8) {
        let least = u32::try_from(LEAST_BYTES).unwrap_or(u32::MAX);
        parameters.set_number(Self::DIRECTION_AT, QZ_DIR_COMPRESS);
        parameters.set_number(Self::LEVEL_AT, u32::from(level));
        parameters.set_number(Self::THRESHOLD_AT, least);
        parameters.set_number(self.format_at, QZ_DEFLATE_RAW);
        if let Some(byte) = parameters.0.get_mut(Self::SOFTWARE_AT) {
            *byte = 0;
        }
    }
}

type Init = unsafe extern "C" fn(*mut QzSession, u8) -> c_int;
type Defaults = unsafe extern "C" fn(*mut Parameters) -> c_int;
type Setup = unsafe extern "C" fn(*mut QzSession, *mut Parameters) -> c_int;
type Compress = unsafe extern "C" fn(
    *mut QzSession,
    *const u8,
    *mut c_uint,
    *mut u8,
    *mut c_uint,
    c_uint,
) -> c_int;
type CompressExt = unsafe extern "C" fn(
    *mut QzSession,
    *const u8,
    *mut c_uint,
    *mut u8,
    *mut c_uint,
    c_uint,
    *mut u64,
) -> c_int;
type Teardown = unsafe extern "C" fn(*mut QzSession) -> c_int;

/// A loaded QATzip. It stays loaded until the process ends, and what it holds of the device with
/// it: `qzClose` would take that from all sessions of the process.
pub struct QatZip {
    init: Init,
    defaults: Defaults,
    setup: Setup,
    compress: Compress,
    /// The same, telling whether software did it.
    compress_ext: Option<CompressExt>,
    teardown: Teardown,
    path: PathBuf,
    version: Option<String>,
    /// Held by each that compresses; alone by one that found no instance of the device free.
    at_work: RwLock<()>,
}

impl QatZip {
    /// The QATzip among the symbols of `handle`, which was loaded from `path`.
    pub(super) fn of(handle: Handle, path: &Path) -> Result<Self, LibraryError> {
        let need = |name| handle.need(NAME, name);
        let compress = need(c"qzCompress")?;
        // SAFETY: by the library's claim, a library by the name of QATzip's functions, these have
        // qatzip.h's types; function pointers and data pointers have one size here.
        unsafe {
            use std::mem::transmute;
            Ok(Self {
                init: transmute::<NonNull<c_void>, Init>(need(c"qzInit")?),
                defaults: transmute::<NonNull<c_void>, Defaults>(need(c"qzGetDefaultsDeflate")?),
                setup: transmute::<NonNull<c_void>, Setup>(need(c"qzSetupSessionDeflate")?),
                compress: transmute::<NonNull<c_void>, Compress>(compress),
                compress_ext: handle
                    .symbol(c"qzCompressExt")
                    .map(|it| transmute::<NonNull<c_void>, CompressExt>(it)),
                teardown: transmute::<NonNull<c_void>, Teardown>(need(c"qzTeardownSession")?),
                path: file_of(compress).unwrap_or_else(|| path.to_owned()),
                version: version_of(path),
                at_work: RwLock::new(()),
            })
        }
    }

    /// The file that it lies in, by the loader's word.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As its file's name has it: what it has for asking does not answer on Linux.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Functions that it does not have and we can do without.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        match self.compress_ext {
            Some(_) => Vec::new(),
            None => vec!["qzCompressExt"],
        }
    }

    /// An encoder for one thread.
    #[must_use]
    pub fn encoder(self: &Arc<Self>) -> QatZipEncoder {
        QatZipEncoder {
            library: Arc::clone(self),
            session: Box::new(QzSession::empty()),
            level: None,
            verifier: Verifier::new(),
        }
    }
}

impl fmt::Debug for QatZip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QatZip")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// What stands behind `.so.` in the name of the file that `path` leads to.
fn version_of(path: &Path) -> Option<String> {
    let file = std::fs::canonicalize(path).ok()?;
    let name = file.file_name()?.to_str()?;
    let (_, version) = name.split_once(".so.")?;
    Some(version.to_owned())
}

/// A session of QATzip, set up for a level.
pub struct QatZipEncoder {
    library: Arc<QatZip>,
    /// In a box, so that it stays where the library has seen it.
    session: Box<QzSession>,
    /// The level that it was set up for; none before.
    level: Option<u8>,
    verifier: Verifier,
}

// SAFETY: a session is used by one thread at a time, and QATzip ties none to the thread that began it.
unsafe impl Send for QatZipEncoder {}

impl QatZipEncoder {
    fn begin(&mut self, level: u8) -> Result<(), RunError> {
        if self.level == Some(level) {
            return Ok(());
        }
        self.end();
        *self.session = QzSession::empty();
        let library = Arc::clone(&self.library);
        let session = &raw mut *self.session;
        // SAFETY: qatzip.h: a session of zeros; 0 is for no software.
        let code = unsafe { (library.init)(session, 0) };
        if code != QZ_DUPLICATE {
            expect("qzInit", code)?;
        }
        let mut parameters = Parameters::untouched();
        // SAFETY: there is more room than any version's parameters take.
        let code = unsafe { (library.defaults)(&raw mut parameters) };
        expect("qzGetDefaultsDeflate", code)?;
        let layout = Layout::find(&parameters).ok_or_else(|| {
            fault("this version of QATzip has parameters that are not known here")
        })?;
        layout.ask(&mut parameters, level);
        // SAFETY: the session is one of zeros that init has seen, the parameters are its own.
        let code = unsafe { (library.setup)(session, &raw mut parameters) };
        expect("qzSetupSessionDeflate", code)?;
        self.level = Some(level);
        self.by_device("qzSetupSessionDeflate")
    }

    fn end(&mut self) {
        if self.level.take().is_some() {
            // SAFETY: the session was set up and is not used again before the next time.
            unsafe { (self.library.teardown)(&raw mut *self.session) };
        }
    }

    /// Fails where the session says that it has no device.
    fn by_device(&self, function: &str) -> Result<(), RunError> {
        let status = c_int::try_from(self.session.hw_session_stat).unwrap_or(c_int::MIN);
        expect(function, status)
    }

    /// Compresses one payload into `space`; returns how many bytes it took.
    fn compress(&mut self, payload: &[u8], space: &mut [u8]) -> Result<usize, RunError> {
        let library = Arc::clone(&self.library);
        let at_work = library.at_work.read();
        let mut done = self.call(payload, space);
        drop(at_work);
        if done.code == QZ_NOSW_NO_INST_ATTACH {
            // There may be fewer instances than threads: once none of them is at work, one is free.
            let _alone = library
                .at_work
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            done = self.call(payload, space);
        }
        expect("qzCompress", done.code)?;
        self.by_device("qzCompress")?;
        if done.told & BY_SOFTWARE != 0 {
            return Err(fault("qzCompress has used software, not the device"));
        }
        if done.made > space.len() {
            return Err(fault("qzCompress says that space has grown"));
        }
        if done.taken != payload.len() {
            return Err(fault("qzCompress has not taken all input"));
        }
        let out = space.get(..done.made).unwrap_or_default();
        self.ends_on_a_byte(payload, out)?;
        Ok(done.made)
    }

    fn call(&mut self, payload: &[u8], space: &mut [u8]) -> Done {
        let mut taken = c_uint::try_from(payload.len()).unwrap_or(c_uint::MAX);
        let mut made = c_uint::try_from(space.len()).unwrap_or(c_uint::MAX);
        let mut told = 0;
        let session = &raw mut *self.session;
        let (input, output) = (payload.as_ptr(), space.as_mut_ptr());
        let (taking, making) = (&raw mut taken, &raw mut made);
        // SAFETY: the session was set up; input and space are as long as is said and live through
        // the call, as do the numbers.
        let code = unsafe {
            match self.library.compress_ext {
                Some(compress) => {
                    compress(session, input, taking, output, making, 0, &raw mut told)
                }
                None => (self.library.compress)(session, input, taking, output, making, 0),
            }
        };
        Done {
            code,
            taken: usize::try_from(taken).unwrap_or(usize::MAX),
            made: usize::try_from(made).unwrap_or(usize::MAX),
            told,
        }
    }

    /// Most output ends with an empty stored block. A stored block that is not empty ends on a byte as
    /// well, and that only inflating can tell.
    fn ends_on_a_byte(&mut self, payload: &[u8], out: &[u8]) -> Result<(), RunError> {
        if out.ends_with(&SYNC_END) {
            return Ok(());
        }
        let run = Run {
            window: payload,
            history_bytes: 0,
            ends: &[payload.len()],
            level: 1,
            flush: Flush::Sync,
        };
        self.verifier.verify(&run, out, &[out.len()])
    }

    fn encode(
        &mut self,
        run: &Run<'_>,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), RunError> {
        clear_errno();
        self.begin(run.level.clamp(1, MAX_LEVEL))?;
        for payload in run.payloads() {
            if payload.len() < LEAST_BYTES {
                store(payload, out);
            } else {
                deflated_or_stored(payload, SPARE_BYTES, out, |space| {
                    self.compress(payload, space)
                })?;
            }
            ends.push(out.len());
        }
        Ok(())
    }
}

/// What a call has come to, by the library's word.
struct Done {
    code: c_int,
    taken: usize,
    made: usize,
    told: u64,
}

impl RunEncoder for QatZipEncoder {
    /// Refers to no history, and ends every payload on a byte, whatever `run` would allow.
    fn encode_run(
        &mut self,
        run: &Run<'_>,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), RunError> {
        let result = self.encode(run, out, ends);
        // What state it is in is nobody's guess.
        result.inspect_err(|_| self.end())
    }
}

impl Drop for QatZipEncoder {
    fn drop(&mut self) {
        self.end();
    }
}

/// What qatzip.h's codes mean to who has to do something about them.
const MEANINGS: &[(c_int, &str)] = &[
    (-1, "it does not take what it is asked for"),
    (-3, "its output is longer than deflate allows"),
    (-5, "the device did not answer in time"),
    (-100, "the device's check of its own work failed"),
    (
        -101,
        "no QAT device can be used: none is there, its driver is not loaded, its compression service \
         (dc) is off, or it is not this user's to open",
    ),
    (-102, "the driver's memory (usdm_drv) cannot be had"),
    (
        -103,
        "no instance of the device is free for this process: its configuration (sections, or \
         QAT_POLICY) gives it none, or all are in use",
    ),
    (
        -104,
        "not enough memory can be locked for the device: raise the limit (ulimit -l, LimitMEMLOCK) \
         or give it huge pages",
    ),
    (-105, "it wants software of its own that is not there"),
    (-116, "the device has no deflate"),
    (-200, "it does not support that"),
    (2, "it uses software: a block before failed on the device"),
    (11, "it uses software: no QAT device can be used"),
    (12, "it uses software: no memory driver"),
    (13, "it uses software: no instance of the device is free"),
    (14, "it uses software: not enough locked memory"),
    (15, "it uses software: not enough locked memory for output"),
    (16, "it uses software: the device has no deflate"),
];

/// The codes of those that have no device.
const NO_DEVICE: &[c_int] = &[-101, -102, -103, -104, 11, 12, 13, 14];

fn expect(function: &str, code: c_int) -> Result<(), RunError> {
    if code == QZ_OK {
        return Ok(());
    }
    let mut text = format!("{function} failed with {code}");
    let meaning = MEANINGS.iter().find(|(known, _)| *known == code);
    if let Some((_, meaning)) = meaning {
        text.push_str(&format!(": {meaning}"));
    }
    // What the last system call of it failed with may be anything; a device that is closed is why.
    let closed = NO_DEVICE.contains(&code).then(closed_device).flatten();
    let system = || system_error().map(|error| error.to_string());
    if let Some(reason) = closed.or_else(system) {
        text.push_str(&format!(" ({reason})"));
    }
    Err(RunError(text))
}

/// A device that is there and may not be opened, with the reason.
fn closed_device() -> Option<String> {
    let in_folder = std::fs::read_dir(DEVICE_FOLDER).into_iter().flatten();
    let in_folder = in_folder.flatten().map(|entry| entry.path());
    DEVICES
        .iter()
        .map(PathBuf::from)
        .chain(in_folder)
        .find_map(|path| {
            use rustix::fs::Access;
            let error = rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK).err()?;
            (error != rustix::io::Errno::NOENT)
                .then(|| format!("{}: {}", path.display(), std::io::Error::from(error)))
        })
}

fn fault(text: &str) -> RunError {
    RunError(text.to_owned())
}

#[cfg(test)]
#[path = "qatzip_tests.rs"]
mod tests;
