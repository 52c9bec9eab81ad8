//! A shared library with zlib's ABI, loaded into this process.
//!
//! The library is not trusted as far as its results can be checked: every output is bounded by its
//! buffer, and every pointer and length that it returns is compared with the input. But it runs in
//! this process, so a process that holds anything of value must not load one; `accelerator` uses a
//! separate process. `loader` loads it.
//!
//! `deflateInit2_`, `deflate` and `deflateEnd` are required. `deflateReset`, `deflateParams`,
//! `deflateSetDictionary` and `zlibVersion` are used if present (ISA-L's library has only the
//! third).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use super::loader::{LibraryError, LibraryHandle, clear_errno, file_of, system_error, text_at};
use super::{MAX_GROWTH_BYTES, Run, RunEncoder, RunError, RunOutput};

/// The version of zlib's headers that define the layout. Implementations compare the first
/// character.
const ABI_VERSION: &CStr = c"1.2.11";
/// zlib.h's `Z_OK`.
const Z_OK: c_int = 0;
/// zlib.h's `Z_SYNC_FLUSH`.
const Z_SYNC_FLUSH: c_int = 2;
/// zlib.h's `Z_DEFLATED`.
const Z_DEFLATED: c_int = 8;
/// Raw deflate with a window of 32 KiB.
const RAW_WINDOW_BITS: c_int = -15;
/// Output space for a payload beyond the maximum of static codes, in bytes.
const SPARE_BYTES: usize = 128;
/// The end of a sync flush: the length of an empty stored block and its complement.
const SYNC_END: [u8; 4] = [0, 0, 0xff, 0xff];
/// Maximum length of a stored block in bytes.
const BLOCK_BYTES: usize = 65535;
/// zlib's default memory level.
const MEMORY_LEVEL: c_int = 8;

/// `z_stream` of zlib.h.
#[repr(C)]
struct ZStream {
    next_in: *const u8,
    avail_in: c_uint,
    total_in: c_ulong,
    next_out: *mut u8,
    avail_out: c_uint,
    total_out: c_ulong,
    msg: *const c_char,
    state: *mut c_void,
    zalloc: Option<unsafe extern "C" fn(*mut c_void, c_uint, c_uint) -> *mut c_void>,
    zfree: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    opaque: *mut c_void,
    data_type: c_int,
    adler: c_ulong,
    reserved: c_ulong,
}

impl ZStream {
    fn empty() -> Self {
        Self {
            next_in: std::ptr::null(),
            avail_in: 0,
            total_in: 0,
            next_out: std::ptr::null_mut(),
            avail_out: 0,
            total_out: 0,
            msg: std::ptr::null(),
            state: std::ptr::null_mut(),
            zalloc: None,
            zfree: None,
            opaque: std::ptr::null_mut(),
            data_type: 0,
            adler: 0,
            reserved: 0,
        }
    }
}

type Init2 = unsafe extern "C" fn(
    *mut ZStream,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_char,
    c_int,
) -> c_int;
type Deflate = unsafe extern "C" fn(*mut ZStream, c_int) -> c_int;
type OneStream = unsafe extern "C" fn(*mut ZStream) -> c_int;
type SetDictionary = unsafe extern "C" fn(*mut ZStream, *const u8, c_uint) -> c_int;
type Params = unsafe extern "C" fn(*mut ZStream, c_int, c_int) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;

/// A loaded library. It stays loaded until the process ends.
pub struct Library {
    init: Init2,
    deflate: Deflate,
    end: OneStream,
    reset: Option<OneStream>,
    set_dictionary: Option<SetDictionary>,
    params: Option<Params>,
    path: PathBuf,
    version: Option<String>,
}

impl Library {
    /// Loads the library at `path`, which must be absolute. Its constructors run.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn load(path: &Path) -> Result<Self, LibraryError> {
        let handle = LibraryHandle::open(path)?;
        let need = |name| handle.need(name);
        let deflate = need(c"deflate")?;
        // dlsym also searches the libraries that this one depends on: QATzip depends on a zlib,
        // whose software would be taken for the accelerator.
        if !file_of(deflate).is_some_and(|file| is_same_file(&file, path)) {
            return Err(LibraryError::Missing("deflate"));
        }
        // SAFETY: a library that exports zlib's function names claims zlib.h's types for them;
        // function pointers and data pointers have the same size here.
        let mut library = unsafe {
            use std::mem::transmute;
            Self {
                init: transmute::<NonNull<c_void>, Init2>(need(c"deflateInit2_")?),
                deflate: transmute::<NonNull<c_void>, Deflate>(deflate),
                end: transmute::<NonNull<c_void>, OneStream>(need(c"deflateEnd")?),
                reset: handle
                    .symbol(c"deflateReset")
                    .map(|it| transmute::<NonNull<c_void>, OneStream>(it)),
                set_dictionary: handle
                    .symbol(c"deflateSetDictionary")
                    .map(|it| transmute::<NonNull<c_void>, SetDictionary>(it)),
                params: handle
                    .symbol(c"deflateParams")
                    .map(|it| transmute::<NonNull<c_void>, Params>(it)),
                path: path.to_owned(),
                version: None,
            }
        };
        if let Some(version) = handle.symbol(c"zlibVersion") {
            // SAFETY: as above; the string is zlib's own, static.
            let text = unsafe {
                let version = std::mem::transmute::<NonNull<c_void>, Version>(version);
                text_at(version())
            };
            library.version = text;
        }
        Ok(library)
    }

    /// The file that the library was loaded from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version that the library reports.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Names of optional functions that the library lacks.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let all = [
            ("deflateReset", self.reset.is_none()),
            ("deflateSetDictionary", self.set_dictionary.is_none()),
            ("deflateParams", self.params.is_none()),
            ("zlibVersion", self.version.is_none()),
        ];
        all.iter()
            .filter(|(_, missing)| *missing)
            .map(|(name, _)| *name)
            .collect()
    }

    /// An encoder for one thread.
    #[must_use]
    pub fn encoder(self: &Arc<Self>) -> LibraryEncoder {
        LibraryEncoder {
            library: Arc::clone(self),
            stream: Box::new(ZStream::empty()),
            level: None,
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// A deflate stream of a library, restarted for each run.
pub struct LibraryEncoder {
    library: Arc<Library>,
    /// Boxed, because the library's state points back to it.
    stream: Box<ZStream>,
    /// The level that it was initialised with; `None` before.
    level: Option<u8>,
}

// SAFETY: a zlib stream has no thread affinity, and this one is used by one thread at a time.
unsafe impl Send for LibraryEncoder {}

impl LibraryEncoder {
    fn begin(&mut self, level: u8) -> Result<(), RunError> {
        let library = Arc::clone(&self.library);
        if self
            .level
            .is_some_and(|before| before == level || library.params.is_some())
            && let Some(reset) = library.reset
        {
            // SAFETY: the stream was initialised by this library and not ended.
            let code = unsafe { reset(&raw mut *self.stream) };
            self.expect("deflateReset", code)?;
            if self.level != Some(level)
                && let Some(params) = library.params
            {
                self.offer(&[], &mut []);
                // SAFETY: as above; input and output are empty.
                let code = unsafe { params(&raw mut *self.stream, c_int::from(level), 0) };
                self.expect("deflateParams", code)?;
                self.level = Some(level);
            }
            return Ok(());
        }
        self.end();
        *self.stream = ZStream::empty();
        let size = c_int::try_from(size_of::<ZStream>()).unwrap_or(c_int::MAX);
        // SAFETY: zlib.h: a stream of zeros, whose allocators are zlib's own then.
        let code = unsafe {
            (library.init)(
                &raw mut *self.stream,
                c_int::from(level),
                Z_DEFLATED,
                RAW_WINDOW_BITS,
                MEMORY_LEVEL,
                0,
                ABI_VERSION.as_ptr(),
                size,
            )
        };
        self.expect("deflateInit2_", code)?;
        self.level = Some(level);
        Ok(())
    }

    fn end(&mut self) {
        if self.level.take().is_some() {
            // SAFETY: the stream was initialised and is not used again before the next time.
            unsafe { (self.library.end)(&raw mut *self.stream) };
        }
    }

    /// Sets the stream's input and output space.
    fn offer(&mut self, input: &[u8], space: &mut [u8]) {
        self.stream.next_in = input.as_ptr();
        self.stream.avail_in = c_uint::try_from(input.len()).unwrap_or(0);
        self.stream.next_out = space.as_mut_ptr();
        self.stream.avail_out = c_uint::try_from(space.len()).unwrap_or(c_uint::MAX);
    }

    fn remember(&mut self, history: &[u8]) -> Result<(), RunError> {
        // Without a dictionary the run refers only to itself: longer, but correct.
        let Some(set) = self.library.set_dictionary.filter(|_| !history.is_empty()) else {
            return Ok(());
        };
        let len = c_uint::try_from(history.len()).unwrap_or(0);
        // SAFETY: the stream was initialised; the history lives through the call, which copies.
        let code = unsafe { set(&raw mut *self.stream, history.as_ptr(), len) };
        self.expect("deflateSetDictionary", code)
    }

    /// Deflates one payload into `space`; returns the number of bytes written.
    fn deflate(&mut self, payload: &[u8], space: &mut [u8]) -> Result<usize, RunError> {
        self.offer(payload, space);
        let (input, output) = (self.stream.next_in, self.stream.next_out);
        // SAFETY: the stream was initialised, input and space live through the call.
        let code = unsafe { (self.library.deflate)(&raw mut *self.stream, Z_SYNC_FLUSH) };
        self.expect("deflate", code)?;
        let left = usize::try_from(self.stream.avail_out).unwrap_or(usize::MAX);
        let made = space.len().checked_sub(left);
        let made = made.ok_or_else(|| fault("deflate says that space has grown"))?;
        if left == 0 {
            return Err(fault("deflate's output is longer than deflate allows"));
        }
        if self.stream.avail_in != 0 || self.stream.next_in != input.wrapping_add(payload.len()) {
            return Err(fault("deflate has not taken all input"));
        }
        if self.stream.next_out != output.wrapping_add(made) {
            return Err(fault("deflate reports two different lengths of its output"));
        }
        let end = space.get(..made).unwrap_or_default();
        if !end.ends_with(&SYNC_END) {
            return Err(fault("deflate's output does not end with a flush"));
        }
        // The borrows end here, so the pointers are cleared.
        self.offer(&[], &mut []);
        Ok(made)
    }

    fn expect(&mut self, function: &str, code: c_int) -> Result<(), RunError> {
        if code == Z_OK {
            return Ok(());
        }
        // The library's `msg` pointer is not trusted and not dereferenced.
        let mut text = format!("{function} failed with {code}");
        if let Some(system) = system_error() {
            text.push_str(&format!(" ({system})"));
        }
        Err(RunError(text))
    }

    fn encode(&mut self, run: &Run<'_>, out: &mut RunOutput) -> Result<(), RunError> {
        clear_errno();
        self.begin(run.level.clamp(1, 9))?;
        self.remember(run.history())?;
        for payload in run.payloads() {
            deflated_or_stored(payload, &mut out.bytes, |space| {
                self.deflate(payload, space)
            })?;
            out.ends.push(out.bytes.len());
        }
        Ok(())
    }
}

impl RunEncoder for LibraryEncoder {
    /// Every payload ends with a sync flush, whatever `run.flush` allows, so that any of them can
    /// be replaced by stored blocks.
    fn encode_run(&mut self, run: &Run<'_>, out: &mut RunOutput) -> Result<(), RunError> {
        let result = self.encode(run, out);
        // The stream's state is unknown after an error.
        result.inspect_err(|_| self.end())
    }
}

impl Drop for LibraryEncoder {
    fn drop(&mut self) {
        self.end();
    }
}

/// Appends `payload` as stored blocks (RFC 1951 §3.2.4).
fn store(payload: &[u8], out: &mut Vec<u8>) {
    for block in payload.chunks(BLOCK_BYTES) {
        let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(0);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(block);
    }
}

/// Appends what `deflate` writes of `payload` into the space that it is given, whose length it
/// returns; or `payload` stored, where that is longer than a peer takes. Of the space,
/// [`SPARE_BYTES`] are beyond nine bits a byte, the most that static codes take: level 1 of zlib-ng
/// and zlib-rs knows no others and stores nothing.
///
/// # Errors
/// Those of `deflate`.
fn deflated_or_stored(
    payload: &[u8],
    out: &mut Vec<u8>,
    deflate: impl FnOnce(&mut [u8]) -> Result<usize, RunError>,
) -> Result<(), RunError> {
    let start = out.len();
    out.resize(start + payload.len() + payload.len() / 8 + SPARE_BYTES, 0);
    let made = deflate(out.get_mut(start..).unwrap_or_default())?;
    out.truncate(start + made);
    if made > payload.len() + MAX_GROWTH_BYTES {
        out.truncate(start);
        store(payload, out);
    }
    Ok(())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

fn fault(text: &str) -> RunError {
    RunError(text.to_owned())
}

#[cfg(test)]
#[path = "library_tests.rs"]
mod tests;
