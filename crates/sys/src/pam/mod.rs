//! Pluggable authentication modules: libpam, loaded on first use, with its own declarations here
//! instead of headers.
//!
//! One handle is used in one process (the parent of the session) from authentication to the end of
//! the session, because modules keep state in it and act on the calling process. The conversation
//! is called only during the call that received it, panics do not unwind into libpam, and the
//! length of modules' messages is limited.

mod raw;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;

use zeroize::Zeroizing;

use crate::ffi::copy_c_str;
use raw::Functions;

/// Largest number of messages in one conversation round (Linux-PAM's own limit).
pub const MAX_MESSAGES: usize = 32;
/// Longest message or answer in bytes; longer messages are cut, longer answers refused.
pub const MAX_TEXT_LEN: usize = 4096;
/// Limit on the number of environment variables taken from modules.
const MAX_VARIABLES: usize = 1024;
/// Longest environment variable in bytes.
const MAX_VARIABLE_LEN: usize = 32 * 1024;

/// A module's question or message for the user. The text is foreign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PamPrompt {
    /// A question whose answer must not be echoed.
    PromptHidden(String),
    /// A question whose answer may be echoed.
    PromptEchoed(String),
    /// An error message to display.
    Error(String),
    /// Information to display.
    Info(String),
}

impl PamPrompt {
    /// True if the message needs an answer.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        matches!(self, Self::PromptHidden(_) | Self::PromptEchoed(_))
    }
}

/// Answers the modules' questions.
pub trait Conversation {
    /// Answers one round: returns one answer per message that [`PamPrompt::is_prompt`], in order.
    /// `None` or a wrong number of answers aborts the conversation.
    fn converse(&mut self, messages: &[PamPrompt]) -> Option<Vec<Zeroizing<Vec<u8>>>>;
}

impl<F> Conversation for F
where
    F: FnMut(&[PamPrompt]) -> Option<Vec<Zeroizing<Vec<u8>>>>,
{
    fn converse(&mut self, messages: &[PamPrompt]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        self(messages)
    }
}

/// A return code of libpam. The names are those of the PAM standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(c_int);

impl Code {
    /// Wrong credentials.
    pub const AUTH_ERR: Self = Self(7);
    /// The password must be changed now ([`Pam::change_password`]).
    pub const NEW_AUTHTOK_REQD: Self = Self(12);
    /// The conversation failed.
    pub const CONV_ERR: Self = Self(19);

    /// Returns the number.
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PamError {
    /// libpam cannot be loaded; the text is the loader's message.
    NoLibrary(String),
    /// An argument contains a NUL byte or is too long.
    BadText,
    /// libpam or a module returned an error.
    Failed {
        /// Return code.
        code: Code,
        /// libpam's description of the code.
        text: String,
    },
}

impl PamError {
    /// Return code of libpam or a module, if there is one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Failed { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl fmt::Display for PamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary(text) => write!(
                f,
                "cannot load libpam.so.0 (install libpam0g, or set UsePAM no): {text}"
            ),
            Self::BadText => f.write_str("text for PAM is too long or holds a NUL byte"),
            Self::Failed { code, text } => write!(f, "{text} (PAM {})", code.0),
        }
    }
}

impl std::error::Error for PamError {}

/// A fact that [`Pam::set_item`] sets for modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PamItem {
    /// The user's terminal (`ssh` before one is allocated).
    Tty,
    /// Name or address of the peer.
    RemoteHost,
    /// User name on the peer's machine.
    RemoteUser,
}

impl PamItem {
    fn as_raw(self) -> c_int {
        match self {
            Self::Tty => raw::PAM_TTY,
            Self::RemoteHost => raw::PAM_RHOST,
            Self::RemoteUser => raw::PAM_RUSER,
        }
    }
}

/// Operation of [`Pam::set_credentials`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialAction {
    /// Establish credentials before the session.
    Establish,
    /// Re-establish them after the ids of the process changed or tickets were renewed.
    Reinitialize,
    /// Delete them after the session.
    Delete,
}

/// Loads libpam now, for processes that start before they are needed.
///
/// # Errors
/// [`PamError::NoLibrary`].
pub fn preload() -> Result<(), PamError> {
    functions().map(|_| ())
}

fn functions() -> Result<&'static Functions, PamError> {
    raw::functions().map_err(PamError::NoLibrary)
}

/// A PAM transaction; dropping it ends the transaction.
pub struct Pam {
    functions: &'static Functions,
    handle: NonNull<c_void>,
    /// Points to the `&mut dyn Conversation` of the running call, else null.
    slot: Box<Cell<*mut c_void>>,
    last: c_int,
    // Modules may rely on being called by the thread that started the transaction.
    not_send: PhantomData<*mut ()>,
}

impl fmt::Debug for Pam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pam")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl Pam {
    /// Starts a transaction with `service` (a file in /etc/pam.d) for `user`.
    ///
    /// # Errors
    /// [`PamError`]; `BadText` also for an empty `service` or one with a slash.
    pub fn start(service: &str, user: &str) -> Result<Self, PamError> {
        Self::start_in(service, user, None)
    }

    /// As [`Pam::start`], with service files from another directory.
    ///
    /// # Errors
    /// [`PamError`]; `NoLibrary` also if `directory` is given and libpam is older than 1.4.
    pub fn start_in(service: &str, user: &str, directory: Option<&Path>) -> Result<Self, PamError> {
        let functions = functions()?;
        // libpam uses the name as part of a path.
        if service.contains('/') || service.is_empty() {
            return Err(PamError::BadText);
        }
        let service = bounded(service.as_bytes())?;
        let user = bounded(user.as_bytes())?;
        let slot = Box::new(Cell::new(std::ptr::null_mut()));
        let conversation = raw::PamConv {
            conv: converse,
            appdata: (&raw const *slot).cast_mut().cast(),
        };
        let mut handle = std::ptr::null_mut();
        let code = match directory {
            None => {
                // SAFETY: terminated strings; libpam copies the structure; the slot is boxed, so
                // its address is valid as long as the handle.
                unsafe {
                    (functions.start)(
                        service.as_ptr(),
                        user.as_ptr(),
                        &raw const conversation,
                        &raw mut handle,
                    )
                }
            }
            Some(directory) => {
                use std::os::unix::ffi::OsStrExt;
                let directory = bounded(directory.as_os_str().as_bytes())?;
                let Some(start) = functions.start_confdir else {
                    return Err(PamError::NoLibrary("pam_start_confdir is missing".into()));
                };
                // SAFETY: as above.
                unsafe {
                    start(
                        service.as_ptr(),
                        user.as_ptr(),
                        &raw const conversation,
                        directory.as_ptr(),
                        &raw mut handle,
                    )
                }
            }
        };
        let Some(handle) = NonNull::new(handle).filter(|_| code == raw::PAM_SUCCESS) else {
            return Err(PamError::Failed {
                code: Code(code),
                text: "cannot start PAM".into(),
            });
        };
        let mut pam = Self {
            functions,
            handle,
            slot,
            last: raw::PAM_SUCCESS,
            not_send: PhantomData,
        };
        pam.disable_delays()?;
        Ok(pam)
    }

    /// Prevents libpam from sleeping after a failure (pam_unix requests about two seconds): the
    /// caller delays refusals of all methods and users alike.
    fn disable_delays(&mut self) -> Result<(), PamError> {
        let instead: raw::FailDelay = no_delay;
        // SAFETY: a live handle; this item is the function's address itself, which is static and
        // has the signature that libpam calls.
        let code = unsafe {
            (self.functions.set_item)(
                self.handle.as_ptr(),
                raw::PAM_FAIL_DELAY,
                instead as *const c_void,
            )
        };
        self.outcome(code)
    }

    fn outcome(&mut self, code: c_int) -> Result<(), PamError> {
        self.last = code;
        if code == raw::PAM_SUCCESS {
            return Ok(());
        }
        // SAFETY: a live handle; the text is static or lives in the handle.
        let text = unsafe {
            copy_c_str(
                (self.functions.strerror)(self.handle.as_ptr(), code),
                MAX_TEXT_LEN,
            )
        };
        Err(PamError::Failed {
            code: Code(code),
            text: String::from_utf8_lossy(&text.unwrap_or_default()).into_owned(),
        })
    }

    /// Calls one libpam function while the slot points to the conversation.
    fn step(
        &mut self,
        call: raw::HandleCall,
        flags: c_int,
        conversation: &mut dyn Conversation,
    ) -> Result<(), PamError> {
        let mut conversation: &mut dyn Conversation = conversation;
        self.slot.set((&raw mut conversation).cast());
        // SAFETY: a live handle; the slot points at a live conversation during the call.
        let code = unsafe { call(self.handle.as_ptr(), flags) };
        self.slot.set(std::ptr::null_mut());
        self.outcome(code)
    }

    /// Authenticates the user. `allow_empty` is `PermitEmptyPasswords`. A failure is not delayed
    /// (pam_fail_delay(3)): the caller must delay it.
    ///
    /// # Errors
    /// [`PamError::Failed`].
    pub fn authenticate(
        &mut self,
        allow_empty: bool,
        conversation: &mut dyn Conversation,
    ) -> Result<(), PamError> {
        let flags = if allow_empty {
            0
        } else {
            raw::PAM_DISALLOW_NULL_AUTHTOK
        };
        self.step(self.functions.authenticate, flags, conversation)
    }

    /// Checks whether the account may log in now.
    ///
    /// # Errors
    /// [`PamError::Failed`]; with [`Code::NEW_AUTHTOK_REQD`] the account may log in after
    /// [`Pam::change_password`].
    pub fn check_account(&mut self, conversation: &mut dyn Conversation) -> Result<(), PamError> {
        self.step(self.functions.acct_mgmt, 0, conversation)
    }

    /// Lets the user change an expired password.
    ///
    /// # Errors
    /// [`PamError::Failed`].
    pub fn change_password(&mut self, conversation: &mut dyn Conversation) -> Result<(), PamError> {
        let flags = raw::PAM_CHANGE_EXPIRED_AUTHTOK;
        self.step(self.functions.chauthtok, flags, conversation)
    }

    /// Establishes, renews or deletes the user's credentials (tickets, keyrings).
    ///
    /// # Errors
    /// [`PamError::Failed`].
    pub fn set_credentials(
        &mut self,
        action: CredentialAction,
        conversation: &mut dyn Conversation,
    ) -> Result<(), PamError> {
        let flags = match action {
            CredentialAction::Establish => raw::PAM_ESTABLISH_CRED,
            CredentialAction::Delete => raw::PAM_DELETE_CRED,
            CredentialAction::Reinitialize => raw::PAM_REINITIALIZE_CRED,
        };
        self.step(self.functions.setcred, flags, conversation)
    }

    /// Opens the session: limits, keyrings, records. It changes the calling process.
    ///
    /// # Errors
    /// [`PamError::Failed`].
    pub fn open_session(&mut self, conversation: &mut dyn Conversation) -> Result<(), PamError> {
        self.step(self.functions.open_session, 0, conversation)
    }

    /// Closes the session.
    ///
    /// # Errors
    /// [`PamError::Failed`].
    pub fn close_session(&mut self, conversation: &mut dyn Conversation) -> Result<(), PamError> {
        self.step(self.functions.close_session, 0, conversation)
    }

    /// Sets a fact that modules use.
    ///
    /// # Errors
    /// [`PamError`].
    pub fn set_item(&mut self, item: PamItem, value: &str) -> Result<(), PamError> {
        let value = bounded(value.as_bytes())?;
        // SAFETY: a live handle; libpam copies the string.
        let code = unsafe {
            (self.functions.set_item)(self.handle.as_ptr(), item.as_raw(), value.as_ptr().cast())
        };
        self.outcome(code)
    }

    /// The user name as modules see it now. Modules may change it; the caller must then refuse the
    /// login.
    #[must_use]
    pub fn user(&self) -> Option<String> {
        let mut value = std::ptr::null();
        // SAFETY: a live handle and a live out-pointer.
        let code = unsafe {
            (self.functions.get_item)(self.handle.as_ptr(), raw::PAM_USER, &raw mut value)
        };
        if code != raw::PAM_SUCCESS {
            return None;
        }
        // SAFETY: null or a terminated string that the handle keeps.
        let name = unsafe { copy_c_str(value.cast(), MAX_TEXT_LEN) }?;
        String::from_utf8(name).ok()
    }

    /// Sets a variable of the session's environment.
    ///
    /// # Errors
    /// [`PamError`]; `BadText` also for a bad name.
    pub fn put_env(&mut self, name: &str, value: &str) -> Result<(), PamError> {
        if name.is_empty() || name.contains('=') {
            return Err(PamError::BadText);
        }
        let entry = bounded_by(format!("{name}={value}").as_bytes(), MAX_VARIABLE_LEN)?;
        // SAFETY: a live handle; libpam copies the string.
        let code = unsafe { (self.functions.putenv)(self.handle.as_ptr(), entry.as_ptr()) };
        self.outcome(code)
    }

    /// The environment variables that modules have set, as names and values. Omits variables that
    /// are too long or not UTF-8, and variables beyond the limit.
    #[must_use]
    pub fn env_list(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        // SAFETY: a live handle; the caller of getenvlist must free the list, entry by entry.
        unsafe {
            let list = (self.functions.getenvlist)(self.handle.as_ptr());
            if list.is_null() {
                return variables;
            }
            let mut next = list;
            while !(*next).is_null() {
                if variables.len() < MAX_VARIABLES {
                    let entry = CStr::from_ptr(*next).to_bytes();
                    let entry = (entry.len() <= MAX_VARIABLE_LEN).then_some(entry);
                    let text = entry.and_then(|entry| std::str::from_utf8(entry).ok());
                    if let Some((name, value)) = text.and_then(|text| text.split_once('=')) {
                        variables.push((name.to_owned(), value.to_owned()));
                    }
                }
                libc::free((*next).cast());
                next = next.add(1);
            }
            libc::free(list.cast());
        }
        variables
    }
}

impl Drop for Pam {
    fn drop(&mut self) {
        // SAFETY: a live handle, used for the last time; the slot is empty.
        unsafe { (self.functions.end)(self.handle.as_ptr(), self.last) };
    }
}

fn bounded(text: &[u8]) -> Result<CString, PamError> {
    bounded_by(text, MAX_TEXT_LEN)
}

fn bounded_by(text: &[u8], most: usize) -> Result<CString, PamError> {
    if text.len() > most {
        return Err(PamError::BadText);
    }
    CString::new(text).map_err(|_| PamError::BadText)
}

/// Called by libpam instead of sleeping after a failure.
extern "C" fn no_delay(_status: c_int, _microseconds: c_uint, _appdata: *mut c_void) {}

/// The conversation function that libpam calls. Panics are caught and become PAM_CONV_ERR.
extern "C" fn converse(
    count: c_int,
    messages: *const *const raw::PamMessage,
    responses: *mut *mut raw::PamResponse,
    appdata: *mut c_void,
) -> c_int {
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: libpam passes arguments as documented; appdata is the slot of a [`Pam`].
        unsafe { converse_checked(count, messages, responses, appdata) }
    }));
    answered
        .unwrap_or(None)
        .map_or(raw::PAM_CONV_ERR, |()| raw::PAM_SUCCESS)
}

/// # Safety
/// `messages` points to `count` pointers to messages, `responses` to a place for the answers,
/// `appdata` to the slot of a live [`Pam`].
unsafe fn converse_checked(
    count: c_int,
    messages: *const *const raw::PamMessage,
    responses: *mut *mut raw::PamResponse,
    appdata: *mut c_void,
) -> Option<()> {
    let count = usize::try_from(count).ok()?;
    if count == 0 || count > MAX_MESSAGES || messages.is_null() || responses.is_null() {
        return None;
    }
    let mut asked = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: within `count`; each entry is checked before it is read.
        let message = unsafe { (*messages.add(index)).as_ref() }?;
        // SAFETY: null or a terminated string of the module.
        let text = unsafe { copy_c_str(message.msg, MAX_TEXT_LEN) }.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        asked.push(match message.style {
            raw::PAM_PROMPT_ECHO_OFF => PamPrompt::PromptHidden(text),
            raw::PAM_PROMPT_ECHO_ON => PamPrompt::PromptEchoed(text),
            raw::PAM_ERROR_MSG => PamPrompt::Error(text),
            raw::PAM_TEXT_INFO => PamPrompt::Info(text),
            _ => return None,
        });
    }
    // SAFETY: appdata is the boxed slot of a live handle.
    let current = unsafe { (*appdata.cast::<Cell<*mut c_void>>()).get() };
    // SAFETY: null outside a call, else the `&mut dyn Conversation` on the stack of
    // the call that led here, which is suspended.
    let conversation = unsafe { current.cast::<&mut dyn Conversation>().as_mut() }?;
    let answers = conversation.converse(&asked)?;
    if answers.len() != asked.iter().filter(|message| message.is_prompt()).count() {
        return None;
    }
    if answers
        .iter()
        .any(|answer| answer.len() > MAX_TEXT_LEN || answer.contains(&0))
    {
        return None;
    }
    // SAFETY: all checks are done; the call only allocates and copies.
    unsafe { raw::store_responses(&asked, &answers, responses) }
}
