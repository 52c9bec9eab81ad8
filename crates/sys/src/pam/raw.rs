//! libpam's types, constants and functions, as documented by its headers.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use zeroize::Zeroizing;

use super::PamPrompt;
use crate::dynlib::Library;

pub(super) const PAM_SUCCESS: c_int = 0;
pub(super) const PAM_CONV_ERR: c_int = 19;

pub(super) const PAM_USER: c_int = 2;
pub(super) const PAM_TTY: c_int = 3;
pub(super) const PAM_RHOST: c_int = 4;
pub(super) const PAM_RUSER: c_int = 8;
pub(super) const PAM_FAIL_DELAY: c_int = 10;

pub(super) const PAM_PROMPT_ECHO_OFF: c_int = 1;
pub(super) const PAM_PROMPT_ECHO_ON: c_int = 2;
pub(super) const PAM_ERROR_MSG: c_int = 3;
pub(super) const PAM_TEXT_INFO: c_int = 4;

pub(super) const PAM_DISALLOW_NULL_AUTHTOK: c_int = 0x1;
pub(super) const PAM_ESTABLISH_CRED: c_int = 0x2;
pub(super) const PAM_DELETE_CRED: c_int = 0x4;
pub(super) const PAM_REINITIALIZE_CRED: c_int = 0x8;
pub(super) const PAM_CHANGE_EXPIRED_AUTHTOK: c_int = 0x20;

#[repr(C)]
pub(super) struct PamMessage {
    pub style: c_int,
    pub msg: *const c_char,
}

#[repr(C)]
pub(super) struct PamResponse {
    pub resp: *mut c_char,
    pub retcode: c_int,
}

type Converse =
    extern "C" fn(c_int, *const *const PamMessage, *mut *mut PamResponse, *mut c_void) -> c_int;

/// Called instead of libpam's sleep with status, microseconds and appdata.
pub(super) type FailDelay = extern "C" fn(c_int, c_uint, *mut c_void);

#[repr(C)]
pub(super) struct PamConv {
    pub conv: Converse,
    pub appdata: *mut c_void,
}

type PamHandle = *mut c_void;
type PamStart =
    unsafe extern "C" fn(*const c_char, *const c_char, *const PamConv, *mut PamHandle) -> c_int;
type PamStartConfdir = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const PamConv,
    *const c_char,
    *mut PamHandle,
) -> c_int;
/// Signature of pam_end, pam_authenticate, pam_acct_mgmt, pam_chauthtok, pam_setcred,
/// pam_open_session and pam_close_session.
pub(super) type HandleCall = unsafe extern "C" fn(PamHandle, c_int) -> c_int;

type SetItem = unsafe extern "C" fn(PamHandle, c_int, *const c_void) -> c_int;
type ReadItem = unsafe extern "C" fn(PamHandle, c_int, *mut *const c_void) -> c_int;
type ErrorText = unsafe extern "C" fn(PamHandle, c_int) -> *const c_char;
type PutEnv = unsafe extern "C" fn(PamHandle, *const c_char) -> c_int;
type EnvList = unsafe extern "C" fn(PamHandle) -> *mut *mut c_char;

pub(super) struct Functions {
    pub start: PamStart,
    pub start_confdir: Option<PamStartConfdir>,
    pub end: HandleCall,
    pub authenticate: HandleCall,
    pub acct_mgmt: HandleCall,
    pub chauthtok: HandleCall,
    pub setcred: HandleCall,
    pub open_session: HandleCall,
    pub close_session: HandleCall,
    pub set_item: SetItem,
    pub get_item: ReadItem,
    pub strerror: ErrorText,
    pub putenv: PutEnv,
    pub getenvlist: EnvList,
    _library: Library,
}

pub(super) fn functions() -> Result<&'static Functions, String> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    FUNCTIONS.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Functions, String> {
    let library = Library::open(&[c"libpam.so.0"])?;
    macro_rules! function {
        ($name:literal as $function:ty) => {{
            let symbol = library.symbol($name)?;
            // SAFETY: libpam's ABI has kept this function's signature since its first release; the
            // type is that of the field that stores it.
            unsafe { std::mem::transmute::<*mut c_void, $function>(symbol.as_ptr()) }
        }};
    }
    Ok(Functions {
        start: function!(c"pam_start" as PamStart),
        start_confdir: library.symbol(c"pam_start_confdir").ok().map(|symbol| {
            // SAFETY: as above, since Linux-PAM 1.4.
            unsafe { std::mem::transmute::<*mut c_void, PamStartConfdir>(symbol.as_ptr()) }
        }),
        end: function!(c"pam_end" as HandleCall),
        authenticate: function!(c"pam_authenticate" as HandleCall),
        acct_mgmt: function!(c"pam_acct_mgmt" as HandleCall),
        chauthtok: function!(c"pam_chauthtok" as HandleCall),
        setcred: function!(c"pam_setcred" as HandleCall),
        open_session: function!(c"pam_open_session" as HandleCall),
        close_session: function!(c"pam_close_session" as HandleCall),
        set_item: function!(c"pam_set_item" as SetItem),
        get_item: function!(c"pam_get_item" as ReadItem),
        strerror: function!(c"pam_strerror" as ErrorText),
        putenv: function!(c"pam_putenv" as PutEnv),
        getenvlist: function!(c"pam_getenvlist" as EnvList),
        _library: library,
    })
}

/// Stores the answers for libpam in memory allocated by malloc, which the module frees. `None` if
/// memory is short; nothing is leaked then.
///
/// # Safety
/// `responses` is valid for a write. No answer contains a NUL byte.
pub(super) unsafe fn store_responses(
    asked: &[PamPrompt],
    answers: &[Zeroizing<Vec<u8>>],
    responses: *mut *mut PamResponse,
) -> Option<()> {
    // SAFETY: calloc returns zeroed memory for one response per message, or null; each copy has
    // room for the answer and its terminator.
    unsafe {
        let array = libc::calloc(asked.len(), size_of::<PamResponse>()).cast::<PamResponse>();
        if array.is_null() {
            return None;
        }
        let mut answers = answers.iter();
        for (index, message) in asked.iter().enumerate() {
            if !message.is_prompt() {
                continue;
            }
            let copied = answers.next().and_then(|answer| {
                let copy = libc::calloc(answer.len() + 1, 1).cast::<u8>();
                if copy.is_null() {
                    return None;
                }
                std::ptr::copy_nonoverlapping(answer.as_ptr(), copy, answer.len());
                Some(copy)
            });
            let Some(copy) = copied else {
                for done in 0..index {
                    wipe_and_free((*array.add(done)).resp);
                }
                libc::free(array.cast());
                return None;
            };
            (*array.add(index)).resp = copy.cast();
        }
        *responses = array;
    }
    Some(())
}

/// # Safety
/// `text` is null or a terminated string allocated by malloc.
unsafe fn wipe_and_free(text: *mut c_char) {
    if text.is_null() {
        return;
    }
    // SAFETY: within the string, by the caller's promise.
    unsafe {
        let len = libc::strlen(text);
        for index in 0..len {
            text.add(index).write_volatile(0);
        }
        libc::free(text.cast());
    }
}
