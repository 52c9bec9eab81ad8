//! `/etc/shadow`: password hashes and their expiry (shadow(5)).

use std::fmt;
use std::io;
use std::path::Path;

use zeroize::Zeroizing;

use super::{files, is_plausible, nss};
use crate::ffi::{c_string, copy_c_str, wide};

const SHADOW: &str = "/etc/shadow";

/// The shadow entry of an account. Days count from 1970-01-01; `None` is an empty field.
#[derive(Clone, PartialEq, Eq)]
pub struct Shadow {
    /// Hash in crypt(5) form. Empty: no password needed; starting with `!` or `*`: locked, no
    /// password matches.
    pub hash: Zeroizing<String>,
    /// Day of the last change; 0 requires a change at the next login.
    pub last_change: Option<i64>,
    /// Number of days before the password may be changed again.
    pub min_days: Option<i64>,
    /// Number of days after which the password must be changed.
    pub max_days: Option<i64>,
    /// Number of days of warning before that.
    pub warn_days: Option<i64>,
    /// Number of days after that in which a login can still change the password.
    pub inactive_days: Option<i64>,
    /// Day on which the account expires.
    pub expire_day: Option<i64>,
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("last_change", &self.last_change)
            .field("max_days", &self.max_days)
            .field("expire_day", &self.expire_day)
            .finish_non_exhaustive()
    }
}

/// State of an account by the dates of its shadow entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordState {
    /// Neither expired nor about to expire.
    Valid,
    /// The account expires or the password must be changed in `days` days.
    ExpiresIn {
        /// Days left; 0 is today.
        days: i64,
        /// True for the account, false for the password.
        account: bool,
    },
    /// Login is allowed, but the password must be changed first.
    MustChange,
    /// The password expired longer ago than the grace period: no login.
    PasswordInactive,
    /// The account has expired: no login.
    AccountExpired,
}

impl Shadow {
    /// Evaluates the dates for day `today` (seconds since 1970 / 86400).
    #[must_use]
    pub fn state(&self, today: i64) -> PasswordState {
        if let Some(expire) = self.expire_day
            && today >= expire
        {
            return PasswordState::AccountExpired;
        }
        if self.last_change == Some(0) {
            return PasswordState::MustChange;
        }
        let mut state = PasswordState::Valid;
        if let (Some(changed), Some(max)) =
            (self.last_change, self.max_days.filter(|max| *max >= 0))
        {
            let due = changed.saturating_add(max);
            if today > due {
                let inactive = self.inactive_days.filter(|days| *days >= 0);
                if inactive.is_some_and(|days| today > due.saturating_add(days)) {
                    return PasswordState::PasswordInactive;
                }
                return PasswordState::MustChange;
            }
            let days = due.saturating_sub(today);
            if self.warn_days.is_some_and(|warn| days < warn) {
                state = PasswordState::ExpiresIn {
                    days,
                    account: false,
                };
            }
        }
        // OpenSSH also warns a week before an account expires.
        if let Some(expire) = self.expire_day
            && expire.saturating_sub(today) <= 7
        {
            state = PasswordState::ExpiresIn {
                days: expire.saturating_sub(today),
                account: true,
            };
        }
        state
    }
}

/// The current day, for [`Shadow::state`].
#[must_use]
pub fn today() -> i64 {
    i64::try_from(crate::time::realtime_seconds() / 86_400).unwrap_or(i64::MAX)
}

/// Returns the shadow entry of a user; `None` if there is none. Only root may read it.
///
/// # Errors
/// If the database cannot be read.
pub fn by_name(name: &str) -> io::Result<Option<Shadow>> {
    if !is_plausible(name) {
        return Ok(None);
    }
    let sources = files::Sources::of("shadow");
    if sources.files_first {
        let found = find(Path::new(SHADOW), name)?;
        if found.is_some() || sources.files_decide {
            return Ok(found);
        }
    }
    by_name_through_nss(name)
}

fn find(path: &Path, name: &str) -> io::Result<Option<Shadow>> {
    files::find_line(path, |line| {
        // Hashes of other users are not copied.
        let (_, shadow) = files::has_name(line, name).then(|| parse(line)).flatten()?;
        Some(shadow)
    })
}

/// Parses a line of shadow(5) into name and entry; `None` if it is malformed.
#[must_use]
pub fn parse(line: &[u8]) -> Option<(&[u8], Shadow)> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
    let [name, hash, last, min, max, warn, inactive, expire, _flag] = fields[..] else {
        return None;
    };
    if name.is_empty() {
        return None;
    }
    let day = |field: &[u8]| std::str::from_utf8(field).ok()?.trim().parse::<i64>().ok();
    let shadow = Shadow {
        hash: Zeroizing::new(String::from_utf8(hash.to_vec()).ok()?),
        last_change: day(last),
        min_days: day(min),
        max_days: day(max),
        warn_days: day(warn),
        inactive_days: day(inactive),
        expire_day: day(expire),
    };
    Some((name, shadow))
}

fn by_name_through_nss(name: &str) -> io::Result<Option<Shadow>> {
    let name = c_string(name)?;
    // SAFETY: getspnam_r is such a function, `name` is terminated, `lookup` passes live locals.
    let found = unsafe {
        nss::lookup(
            |entry, buffer, len, found| libc::getspnam_r(name.as_ptr(), entry, buffer, len, found),
            shadow,
        )
    };
    Ok(found?.flatten())
}

/// # Safety
/// `entry` was filled by a successful `getspnam_r` whose buffer still lives.
unsafe fn shadow(entry: &libc::spwd) -> Option<Shadow> {
    // -1 means no value.
    let day = |value: libc::c_long| Some(wide(value)).filter(|value| *value != -1);
    // SAFETY: null or a terminated string, by the caller's promise.
    let hash = unsafe { copy_c_str(entry.sp_pwdp, 1024) }.unwrap_or_default();
    Some(Shadow {
        hash: Zeroizing::new(String::from_utf8(hash).ok()?),
        last_change: day(entry.sp_lstchg),
        min_days: day(entry.sp_min),
        max_days: day(entry.sp_max),
        warn_days: day(entry.sp_warn),
        inactive_days: day(entry.sp_inact),
        expire_day: day(entry.sp_expire),
    })
}
