//! Absolute times and intervals in configuration and key options (sshd_config(5), TIME FORMATS;
//! ssh-keygen(1), -V). No clock: a function of the caller converts local time to seconds.

/// A date and time without a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilTime {
    /// The year, such as 2026.
    pub year: i32,
    /// 1–12.
    pub month: u8,
    /// 1–31.
    pub day: u8,
    /// 0–23.
    pub hour: u8,
    /// 0–59.
    pub minute: u8,
    /// 0–60.
    pub second: u8,
}

/// Converts local time to seconds since 1970, or `None` if that time does not exist. Callers with
/// system access pass `sys::time::local_to_seconds`.
pub type LocalClock<'a> = &'a dyn Fn(CivilTime) -> Option<i64>;

impl CivilTime {
    /// Converts to seconds since 1970, taking this as UTC.
    #[must_use]
    pub fn utc_seconds(self) -> Option<i64> {
        // Days since 1970 by eras of 400 years that begin in March (Howard Hinnant,
        // "chrono-compatible low-level date algorithms").
        let month = i64::from(self.month);
        let year = i64::from(self.year) - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_year =
            (153 * ((month + 9) % 12) + 2) / 5 + i64::from(self.day).checked_sub(1)?;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        Some(
            days * 86_400
                + i64::from(self.hour) * 3600
                + i64::from(self.minute) * 60
                + i64::from(self.second),
        )
    }

    /// Converts seconds since 1970 to UTC. Years above `i32::MAX` saturate.
    #[must_use]
    pub fn from_utc_seconds(seconds: u64) -> Self {
        let days = i64::try_from(seconds / 86_400).unwrap_or(0) + 719_468;
        let time = seconds % 86_400;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let small = |value: u64| u8::try_from(value).unwrap_or(0);
        Self {
            year: i32::try_from(year).unwrap_or(i32::MAX),
            month: u8::try_from(month).unwrap_or(1),
            day: u8::try_from(day).unwrap_or(1),
            hour: small(time / 3600),
            minute: small(time / 60 % 60),
            second: small(time % 60),
        }
    }
}

/// Parses `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS` as local time or, with a `Z` at the end,
/// as UTC, to seconds since 1970. `None` for anything else and for times before 1970.
#[must_use]
pub fn parse_absolute(text: &str, local: LocalClock<'_>) -> Option<u64> {
    let (digits, utc) = match text.strip_suffix(['Z', 'z']) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |at: usize, len: usize| -> Option<u8> {
        digits
            .get(at..at + len)
            .map_or(Some(0), |part| part.parse().ok())
    };
    let time = CivilTime {
        year: digits.get(..4)?.parse().ok()?,
        month: number(4, 2)?,
        day: number(6, 2)?,
        hour: number(8, 2)?,
        minute: number(10, 2)?,
        second: number(12, 2)?,
    };
    let possible = (1..=12).contains(&time.month)
        && (1..=31).contains(&time.day)
        && time.hour < 24
        && time.minute < 60
        && time.second <= 60;
    if !possible {
        return None;
    }
    let seconds = if utc { time.utc_seconds() } else { local(time) };
    u64::try_from(seconds?).ok()
}

/// Parses an interval such as `90`, `10m` or `1h30m` (units s, m, h, d, w in either case) to
/// seconds. `None` if it is empty, has an unknown unit or overflows.
#[must_use]
pub fn parse_interval(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut number: Option<u64> = None;
    if text.is_empty() {
        return None;
    }
    for character in text.chars() {
        if let Some(digit) = character.to_digit(10) {
            let value = number.unwrap_or(0).checked_mul(10)?;
            number = Some(value.checked_add(u64::from(digit))?);
            continue;
        }
        let unit = match character.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    total.checked_add(number.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(time: CivilTime) -> Option<i64> {
        time.utc_seconds()
    }

    #[test]
    fn dates_become_seconds_and_come_back() {
        for (text, seconds) in [
            ("19700101Z", 0),
            ("20000229Z", 951_782_400),
            ("202611212112Z", 1_795_295_520),
            ("20380119031408Z", 2_147_483_648),
            ("99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(parse_absolute(text, &|_| None), Some(seconds), "{text}");
            let back = CivilTime::from_utc_seconds(seconds);
            assert_eq!(back.utc_seconds().unwrap().cast_unsigned(), seconds);
        }
        assert_eq!(parse_absolute("20000229", &utc), Some(951_782_400));
    }

    #[test]
    fn nonsense_is_no_time() {
        for bad in [
            "",
            "2026",
            "20261301",
            "20260132",
            "202601012460",
            "2026010x",
            "19691231Z",
            "Z",
        ] {
            assert_eq!(parse_absolute(bad, &utc), None, "{bad}");
        }
    }

    #[test]
    fn intervals_add_up() {
        assert_eq!(parse_interval("90"), Some(90));
        assert_eq!(parse_interval("1h30m"), Some(5400));
        assert_eq!(parse_interval("52W"), Some(31_449_600));
        for bad in [
            "",
            "m",
            "1y",
            "-1",
            "99999999999999999999",
            "9999999999999999w",
        ] {
            assert_eq!(parse_interval(bad), None, "{bad}");
        }
    }
}
