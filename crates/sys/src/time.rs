//! Clocks: monotonic milliseconds for the protocol core, wall-clock seconds for
//! certificates and logs, and local time as text for log lines.

use std::time::Duration;

use rustix::time::Timespec;

use crate::ffi::wide;

use self::c::{clock_gettime, localtime_r, mktime, timespec};

/// The C library's functions for times of 64 bits.
#[cfg(target_pointer_width = "64")]
mod c {
    pub(super) use libc::{clock_gettime, localtime_r, mktime, timespec};
}
/// With 32-bit words the functions with the usual names end in 2038; these are glibc's (2.34 or later) for
/// later times.
#[cfg(target_pointer_width = "32")]
mod c {
    use libc::{c_int, c_long, clockid_t, tm};

    /// `struct __timespec64` of a little-endian machine.
    #[repr(C)]
    #[derive(Clone, Copy)]
    #[allow(non_camel_case_types)]
    pub(super) struct timespec {
        pub(super) tv_sec: i64,
        pub(super) tv_nsec: c_long,
        padding: c_long,
    }

    unsafe extern "C" {
        #[link_name = "__clock_gettime64"]
        pub(super) fn clock_gettime(clock: clockid_t, now: *mut timespec) -> c_int;
        #[link_name = "__localtime64_r"]
        pub(super) fn localtime_r(time: *const i64, local: *mut tm) -> *mut tm;
        #[link_name = "__mktime64"]
        pub(super) fn mktime(local: *mut tm) -> i64;
    }
}

/// Reads a clock through libc, which can call the vDSO without preparation: rustix looks the vDSO
/// up on its first call, with system calls that the sandbox answers by killing the process.
fn clock(id: libc::clockid_t) -> timespec {
    // SAFETY: numbers, for which zero is valid.
    let mut now: timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local. The clocks used here always exist.
    unsafe { clock_gettime(id, &raw mut now) };
    now
}

/// Milliseconds of a clock that never goes back (time in suspend not counted).
#[must_use]
pub fn monotonic_ms() -> u64 {
    monotonic_us() / 1000
}

/// What [`monotonic_ms`] says when `wait` has passed.
#[must_use]
pub fn monotonic_ms_after(wait: Duration) -> u64 {
    monotonic_ms().saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

/// Microseconds of the same clock as [`monotonic_ms`].
#[must_use]
pub fn monotonic_us() -> u64 {
    micros(clock(libc::CLOCK_MONOTONIC))
}

/// Milliseconds since the machine started, suspended time included.
#[must_use]
pub fn boot_ms() -> u64 {
    micros(clock(libc::CLOCK_BOOTTIME)) / 1000
}

/// CPU time of the calling thread, in microseconds.
#[must_use]
pub(crate) fn thread_cpu_us() -> u64 {
    micros(clock(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// CPU time of all threads of this process, in microseconds.
#[must_use]
pub fn process_cpu_us() -> u64 {
    micros(clock(libc::CLOCK_PROCESS_CPUTIME_ID))
}

/// Seconds since 1970-01-01 UTC; 0 if the clock is set to an earlier time.
#[must_use]
pub fn realtime_seconds() -> u64 {
    u64::try_from(clock(libc::CLOCK_REALTIME).tv_sec).unwrap_or(0)
}

/// Wall-clock time as seconds and microseconds since 1970.
#[must_use]
pub fn realtime() -> (u64, u32) {
    let now = clock(libc::CLOCK_REALTIME);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let micros = u32::try_from(now.tv_nsec / 1000).unwrap_or(0);
    (seconds, micros)
}

/// Formats a wall-clock time ([`realtime`]) as RFC 3339 does, in UTC with milliseconds:
/// `2026-11-21T21:12:03.040Z`.
#[must_use]
pub fn to_rfc3339(seconds: u64, micros: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, so that a leap day is the last of its year.
    let days = days.saturating_add(719_468);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    let year = era * 400 + year + u64::from(is_next_year);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let ms = micros / 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

fn micros(time: timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(nanos / 1000)
}

/// Converts a duration to the kernel's type; too long ones saturate.
#[must_use]
pub(crate) fn timespec(length: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(length.subsec_nanos()),
    }
}

/// Date and time in the machine's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, such as 2026.
    pub year: i64,
    /// 1–12.
    pub month: u8,
    /// 1–31.
    pub day: u8,
    /// 0–23.
    pub hour: u8,
    /// 0–59.
    pub minute: u8,
    /// 0–60 (leap second).
    pub second: u8,
    /// 0 is Sunday.
    pub weekday: u8,
    /// Seconds east of UTC.
    pub utc_offset_seconds: i32,
}

impl LocalTime {
    /// Converts seconds since 1970. The zone file is read on the first call, so make that call
    /// before a chroot. A time that libc cannot represent becomes 1970-01-01 UTC.
    #[must_use]
    pub fn from_seconds(seconds: i64) -> Self {
        // SAFETY: tm is a plain C struct for which all zeroes is valid.
        let mut tm: libc::tm = unsafe { std::mem::zeroed() };
        let time = seconds;
        // SAFETY: both pointers are to live locals of the right type.
        let ok = unsafe { !localtime_r(&raw const time, &raw mut tm).is_null() };
        if !ok {
            // SAFETY: as above.
            tm = unsafe { std::mem::zeroed() };
            tm.tm_year = 70;
            tm.tm_mday = 1;
            tm.tm_wday = 4;
        }
        let small = |value: i32| u8::try_from(value).unwrap_or(0);
        Self {
            year: i64::from(tm.tm_year) + 1900,
            month: small(tm.tm_mon + 1),
            day: small(tm.tm_mday),
            hour: small(tm.tm_hour),
            minute: small(tm.tm_min),
            second: small(tm.tm_sec),
            weekday: small(tm.tm_wday),
            utc_offset_seconds: i32::try_from(wide(tm.tm_gmtoff)).unwrap_or(0),
        }
    }

    /// English three-letter abbreviation of the month.
    #[must_use]
    pub fn month_name(&self) -> &'static str {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let index = usize::from(self.month.saturating_sub(1));
        MONTHS.get(index).copied().unwrap_or("???")
    }

    /// English three-letter abbreviation of the weekday.
    #[must_use]
    pub fn weekday_name(&self) -> &'static str {
        const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        DAYS.get(usize::from(self.weekday))
            .copied()
            .unwrap_or("???")
    }

    /// Formats as ctime(3) and "Last login:" do: `Thu Nov 21 21:12:03 2026`.
    #[must_use]
    pub fn to_ctime(&self) -> String {
        format!(
            "{} {} {:2} {:02}:{:02}:{:02} {}",
            self.weekday_name(),
            self.month_name(),
            self.day,
            self.hour,
            self.minute,
            self.second,
            self.year
        )
    }

    /// Formats for syslog (RFC 3164 §4.1.2): `Nov 21 21:12:03`.
    #[must_use]
    pub fn to_syslog(&self) -> String {
        format!(
            "{} {:2} {:02}:{:02}:{:02}",
            self.month_name(),
            self.day,
            self.hour,
            self.minute,
            self.second
        )
    }
}

/// Converts a local date and time (month from 1, time as hour, minute, second) to seconds since
/// 1970; `None` if libc cannot represent it. Daylight saving time is applied.
#[must_use]
pub fn local_to_seconds(year: i32, month: u8, day: u8, time: (u8, u8, u8)) -> Option<i64> {
    // SAFETY: tm is a plain C struct for which all zeroes is valid.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    tm.tm_year = year.checked_sub(1900)?;
    tm.tm_mon = i32::from(month).checked_sub(1)?;
    tm.tm_mday = i32::from(day);
    tm.tm_hour = i32::from(time.0);
    tm.tm_min = i32::from(time.1);
    tm.tm_sec = i32::from(time.2);
    tm.tm_isdst = -1;
    // SAFETY: the pointer is to a live local; mktime only normalises it.
    let seconds = unsafe { mktime(&raw mut tm) };
    if seconds == -1 { None } else { Some(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_does_not_go_back() {
        let before = monotonic_us();
        assert!(monotonic_us() >= before);
        assert!(realtime_seconds() > 1_600_000_000);
    }

    #[test]
    fn local_time_survives_the_round_trip() {
        let seconds = 1_763_759_523;
        let local = LocalTime::from_seconds(seconds);
        let year = i32::try_from(local.year).unwrap();
        let back = local_to_seconds(
            year,
            local.month,
            local.day,
            (local.hour, local.minute, local.second),
        );
        assert_eq!(back, Some(seconds));
        assert!(local.to_ctime().ends_with("2025"));
        assert_eq!(local.to_syslog().len(), 15);
    }

    #[test]
    fn absurd_times_do_not_panic() {
        for seconds in [i64::MIN, i64::MAX, -1, 0] {
            let _ = LocalTime::from_seconds(seconds).to_ctime();
        }
    }

    #[test]
    fn times_of_rfc_3339_are_those_of_the_calendar() {
        for (seconds, micros, text) in [
            (0, 0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, 999_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400, 1000, "2000-02-29T00:00:00.001Z"),
            (951_868_800, 0, "2000-03-01T00:00:00.000Z"),
            (1_709_251_199, 0, "2024-02-29T23:59:59.000Z"),
            (1_767_225_599, 0, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(to_rfc3339(seconds, micros), text);
        }
    }
}
