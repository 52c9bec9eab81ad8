//! The client's messages to the user, with the levels of OpenSSH's `LogLevel`, to standard error or
//! to the file of `-E`.
//!
//! Each line is one `write`, so lines of several processes do not mix. While the terminal is in raw
//! mode a line ends in CR LF. The level applies to the whole program, except on a thread that has
//! its own ([`own_level`]). LogVerbose names places in the source whose messages are written at any
//! level ([`force`]). The text of peers must pass through [`crate::text`] first; secrets must
//! never be logged.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use config::log_verbose;
use escape::LogLevel;
use sys::syslog::Syslog;

/// Takes a message.
pub type MessageReader = Box<dyn FnMut(&str)>;

static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);
thread_local! {
    /// This thread's own level, if it has one.
    static OWN_LEVEL: Cell<Option<u8>> = const { Cell::new(None) };
    /// LogVerbose of a thread with its own level.
    static OWN_FORCED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Takes this thread's messages in place of the program's destination.
    static OWN_READER: RefCell<Option<MessageReader>> = const { RefCell::new(None) };
}
static RAW_TERMINAL: AtomicBool = AtomicBool::new(false);
static LINE_IS_OPEN: AtomicBool = AtomicBool::new(false);
static SINK: Mutex<Sink> = Mutex::new(Sink::Stderr);
/// LogVerbose of the program, and whether it names anything.
static FORCED: Mutex<Vec<String>> = Mutex::new(Vec::new());
static IS_FORCING: AtomicBool = AtomicBool::new(false);

/// The destination of messages.
enum Sink {
    Stderr,
    File(File),
    Syslog(Syslog),
}

/// Gives this thread a level of its own, which starts with the current one: later changes on this
/// thread affect no other.
pub fn own_level() {
    OWN_LEVEL.set(Some(number_now()));
}

/// Passes this thread's messages to `reader` while `work` runs, each without its final newline: for a
/// program with many connections, which says of each message whose it is. Levels count as before.
pub fn read_by<T>(reader: MessageReader, work: impl FnOnce() -> T) -> T {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            OWN_READER.set(None);
        }
    }
    OWN_READER.set(Some(reader));
    let _restore = Restore;
    work()
}

/// True if this thread's messages are passed to a reader.
pub(crate) fn has_reader() -> bool {
    OWN_READER.with_borrow(Option::is_some)
}

/// Gives a message to this thread's own reader; false if it has none.
fn read_here(text: &str) -> bool {
    OWN_READER.with_borrow_mut(|reader| match reader {
        Some(reader) => {
            reader(text.trim_end_matches('\n'));
            true
        }
        None => false,
    })
}

/// Runs `work` without messages from this thread: for a program that embeds the client and gets
/// errors as values.
pub fn silently<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(Option<u8>);
    impl Drop for Restore {
        fn drop(&mut self) {
            OWN_LEVEL.set(self.0);
        }
    }
    let _restore = Restore(OWN_LEVEL.replace(Some(LogLevel::Quiet.number())));
    work()
}

fn number_now() -> u8 {
    OWN_LEVEL
        .get()
        .unwrap_or_else(|| LEVEL.load(Ordering::Relaxed))
}

/// Sets the level: this thread's own if it has one, else the program's.
pub fn set_level(level: LogLevel) {
    match OWN_LEVEL.get() {
        Some(_) => OWN_LEVEL.set(Some(level.number())),
        None => LEVEL.store(level.number(), Ordering::Relaxed),
    }
}

/// Sets LogVerbose, for this thread if it has its own level, else for the program.
pub fn force(overrides: &[String]) {
    if OWN_LEVEL.get().is_some() {
        OWN_FORCED.set(overrides.to_vec());
        return;
    }
    IS_FORCING.store(!overrides.is_empty(), Ordering::Relaxed);
    *FORCED.lock().unwrap_or_else(PoisonError::into_inner) = overrides.to_vec();
}

/// The text to write before a message of this place, if LogVerbose names the place.
fn forced_tag(at: &Location<'_>) -> Option<String> {
    if OWN_LEVEL.get().is_some() {
        return OWN_FORCED.with_borrow(|overrides| log_verbose::tag(overrides, at));
    }
    if !IS_FORCING.load(Ordering::Relaxed) {
        return None;
    }
    let overrides = FORCED.lock().unwrap_or_else(PoisonError::into_inner);
    log_verbose::tag(&overrides, at)
}

/// The current level.
#[must_use]
pub fn level() -> LogLevel {
    LogLevel::from_number(number_now())
}

/// True if a message of this level is written: check it before composing a costly one.
#[must_use]
pub fn says(level: LogLevel) -> bool {
    level.number() <= number_now()
}

fn set_sink(sink: Sink) {
    *SINK.lock().unwrap_or_else(PoisonError::into_inner) = sink;
}

/// Sends messages to a file instead of standard error.
pub fn set_file(file: File) {
    set_sink(Sink::File(file));
}

/// Sends messages to the system's log instead of standard error.
pub fn set_syslog(log: Syslog) {
    set_sink(Sink::Syslog(log));
}

/// True if debugging messages are written, and to standard error.
pub(crate) fn debugs_on_stderr() -> bool {
    let sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
    says(LogLevel::Debug1) && matches!(*sink, Sink::Stderr)
}

/// Sets whether standard error is a terminal in raw mode, where a line must end in CR LF.
pub fn set_raw_terminal(raw: bool) {
    RAW_TERMINAL.store(raw, Ordering::Relaxed);
}

/// Marks that the line on the terminal is unfinished and will be repainted (a progress meter): the
/// next message ends it first.
pub fn open_line() {
    LINE_IS_OPEN.store(true, Ordering::Relaxed);
}

/// Clears the mark of [`open_line`]; false if there was none or a message has ended the line.
pub fn close_line() -> bool {
    LINE_IS_OPEN.swap(false, Ordering::Relaxed)
}

/// The prefix of a message on standard error: a newline if the terminal has an unfinished line.
fn begin() -> &'static str {
    let is_open = LINE_IS_OPEN.load(Ordering::Relaxed);
    match is_open && sys::io::is_terminal(sys::io::stderr()) && close_line() {
        true => "\n",
        false => "",
    }
}

/// Writes one message, if its level or LogVerbose permits; use the macros of this crate.
#[track_caller]
pub fn write(level: LogLevel, message: fmt::Arguments<'_>) {
    let tag = forced_tag(Location::caller());
    if tag.is_none() && !says(level) {
        return;
    }
    let tag = tag.map_or_else(String::new, |tag| format!("{tag}: "));
    let line = format!("{}{tag}{message}", level.debug_prefix());
    if has_reader() {
        read_here(&escape::system_words(&line));
        return;
    }
    let mut sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
    let raw = matches!(*sink, Sink::Stderr) && RAW_TERMINAL.load(Ordering::Relaxed);
    let line = escape::system_words(&line);
    let end = if raw { "\r\n" } else { "\n" };
    // A failure to write the log cannot be reported anywhere.
    let _ = match &mut *sink {
        Sink::File(file) => file.write_all(format!("{line}{end}").as_bytes()),
        Sink::Syslog(log) => log.write(level, &line),
        // `write_all` waits if standard error is non-blocking, which it may become through a sink
        // on the same terminal.
        Sink::Stderr => {
            let text = format!("{}{line}{end}", begin());
            sys::io::write_all(sys::io::stderr(), text.as_bytes())
        }
    };
}

/// Writes a message at [`LogLevel::Info`], unless it has been written before: several connections of
/// one program produce the same messages.
pub fn info_once(message: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if !says(LogLevel::Info) {
        return;
    }
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(message.to_owned()) {
        write(LogLevel::Info, format_args!("{message}"));
    }
}

/// `WarnWeakCrypto`: says that `what` uses algorithms that only old devices need, unless `names` is
/// empty. Only a configuration permits them.
pub(crate) fn warn_of_old_algorithms(what: &str, names: &[&str], advice: &str) {
    if !names.is_empty() {
        let names = names.join(", ");
        info_once(&format!(
            "** WARNING: {what} is using weak algorithms of old devices: {names}.\n** {advice}"
        ));
    }
}

/// Writes text for the user to standard error whatever the level (notices of prompts, usage).
pub fn tell(text: &str) {
    let text = escape::system_words(text);
    if read_here(&text) {
        return;
    }
    let text = format!("{}{text}", begin());
    let text = match RAW_TERMINAL.load(Ordering::Relaxed) {
        true => text.replace('\n', "\r\n"),
        false => text,
    };
    let _ = sys::io::write_all(sys::io::stderr(), text.as_bytes());
}

macro_rules! at_level {
    ($name:ident, $level:ident, $dollar:tt) => {
        macro_rules! $name {
            ($dollar($dollar argument:tt)*) => {
                $crate::log::write(::escape::LogLevel::$level, format_args!($dollar($dollar argument)*))
            };
        }
        pub(crate) use $name;
    };
}

at_level!(fatal, Fatal, $);
at_level!(error, Error, $);
at_level!(info, Info, $);
at_level!(verbose, Verbose, $);
at_level!(debug1, Debug1, $);
at_level!(debug2, Debug2, $);
at_level!(debug3, Debug3, $);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_the_messages_of_its_thread_and_no_others() {
        let seen = std::rc::Rc::new(RefCell::new(Vec::new()));
        let lines = std::rc::Rc::clone(&seen);
        read_by(
            Box::new(move |line| lines.borrow_mut().push(line.to_owned())),
            || {
                error!("one {}", 1);
                debug3!("too loud");
                tell("two\n");
                std::thread::spawn(|| assert!(!read_here("another thread's"))).join()
            },
        )
        .unwrap();
        assert_eq!(*seen.borrow(), ["one 1", "two"]);
        assert!(!read_here("afterwards"));
    }

    #[test]
    fn a_thread_with_a_level_of_its_own_leaves_the_program_s_alone() {
        let before = level();
        let own = std::thread::spawn(move || {
            own_level();
            let taken_over = level();
            set_level(LogLevel::Debug3);
            (taken_over, level(), says(LogLevel::Debug3))
        });
        assert_eq!(own.join().unwrap(), (before, LogLevel::Debug3, true));
        assert_eq!(level(), before);
    }
}
