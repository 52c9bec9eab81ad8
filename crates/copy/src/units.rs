//! Amounts as the field writes them.

/// Bytes in at most four figures and a unit: `999B`, `12.0KB`, `150GB`.
pub(crate) fn bytes(amount: u64) -> String {
    const UNITS: [&str; 6] = ["", "KB", "MB", "GB", "TB", "PB"];
    #[allow(clippy::cast_precision_loss)]
    let mut value = amount as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match unit {
        0 => format!("{amount}B"),
        _ if value < 99.95 => format!("{value:.1}{name}"),
        _ => format!("{value:.0}{name}"),
    }
}

/// Bytes as OpenBSD's `fmt_scaled` writes them, which `ls -lh` of sftp uses: `1000B`, `9.9M`, `1011K`.
pub(crate) fn scaled(amount: u64) -> String {
    const UNITS: [char; 7] = ['B', 'K', 'M', 'G', 'T', 'P', 'E'];
    let (mut whole, mut rest, mut unit) = (amount, 0, 0);
    while whole >= 1024 && unit + 1 < UNITS.len() {
        (whole, rest) = (whole / 1024, whole % 1024);
        unit += 1;
    }
    let mut tenth = (10 * rest + 512) / 1024;
    if tenth >= 10 {
        (whole, tenth) = (whole + 1, 0);
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match unit {
        0 => format!("{whole}{name}"),
        _ if whole >= 100 => format!("{}{name}", whole + u64::from(tenth >= 5)),
        _ => format!("{whole}.{tenth}{name}"),
    }
}

/// A time as `12:34` or `1:02:03`.
pub(crate) fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes:02}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A rate as `--limit` takes it, bytes a second: a number, with `k`, `M` or `G` for powers of
/// 1024.
///
/// # Errors
/// A description of the mistake.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let bad = || format!("bad rate \"{text}\": write bytes a second, as 500k, 20M or 1G");
    let at = text
        .find(|byte: char| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number
        .checked_mul(factor)
        .filter(|rate| *rate > 0)
        .ok_or_else(bad)
}

/// A limit as `-l` takes it, kilobits a second; gives bytes a second.
///
/// # Errors
/// A description of the mistake.
pub(crate) fn kilobits(text: &str) -> Result<u64, String> {
    let kilobits: u64 = text
        .parse()
        .ok()
        .filter(|kilobits| (1..=100 << 20).contains(kilobits))
        .ok_or_else(|| format!("-l: bad limit \"{text}\": write kilobits a second"))?;
    Ok(kilobits * 1024 / 8)
}

/// The largest value of an option of `-X`, in requests or bytes.
const MAX_SFTP_OPTION: u64 = 256 * 1024;

/// Checks an option of `-X`, `nrequests=` or `buffer=`, as OpenSSH's programs do. The value has no effect:
/// sizes and numbers of requests follow the connection here.
///
/// # Errors
/// OpenSSH's message.
pub(crate) fn check_sftp_option(text: &str) -> Result<(), String> {
    if let Some(size) = text.strip_prefix("buffer=") {
        let bytes = config::units::parse_bytes(size.trim_start());
        return match bytes.is_some_and(|bytes| (1..=MAX_SFTP_OPTION).contains(&bytes)) {
            true => Ok(()),
            false => Err(format!("Invalid buffer size \"{size}\": Invalid argument")),
        };
    }
    let Some(number) = text.strip_prefix("nrequests=") else {
        return Err("Invalid -X option".to_owned());
    };
    let why = match number.trim_start().parse::<i64>() {
        Ok(..=0) => "too small",
        Ok(count) if count.unsigned_abs() > MAX_SFTP_OPTION => "too large",
        Ok(_) => return Ok(()),
        Err(_) => "invalid",
    };
    Err(format!("Invalid number of requests \"{number}\": {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_sftp_have_the_names_and_values_of_openssh() {
        for good in [
            "nrequests=1",
            "nrequests=+5",
            "nrequests= 262144",
            "buffer=1",
            "buffer=1.5k",
            "buffer=256K",
        ] {
            assert_eq!(check_sftp_option(good), Ok(()), "{good}");
        }
        for (bad, said) in [
            ("nrequests=0", "Invalid number of requests \"0\": too small"),
            (
                "nrequests=-1",
                "Invalid number of requests \"-1\": too small",
            ),
            (
                "nrequests=262145",
                "Invalid number of requests \"262145\": too large",
            ),
            ("nrequests=x", "Invalid number of requests \"x\": invalid"),
            ("nrequests=", "Invalid number of requests \"\": invalid"),
            ("buffer=0", "Invalid buffer size \"0\": Invalid argument"),
            (
                "buffer=257K",
                "Invalid buffer size \"257K\": Invalid argument",
            ),
            (
                "buffer=32KB",
                "Invalid buffer size \"32KB\": Invalid argument",
            ),
            ("buffer=", "Invalid buffer size \"\": Invalid argument"),
            ("Buffer=1", "Invalid -X option"),
            ("", "Invalid -X option"),
        ] {
            assert_eq!(check_sftp_option(bad), Err(said.to_owned()), "{bad}");
        }
    }

    #[test]
    fn amounts_are_short() {
        for (amount, text) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1.0KB"),
            (10 << 10, "10.0KB"),
            (1536 << 20, "1.5GB"),
            (999 << 20, "999MB"),
        ] {
            assert_eq!(bytes(amount), text);
        }
        for (amount, text) in [
            (0, "0B"),
            (1000, "1000B"),
            (4096, "4.0K"),
            (102_400, "100K"),
            (1_035_264, "1011K"),
            (10_342_400, "9.9M"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(scaled(amount), text);
        }
        assert_eq!(clock(61), "01:01");
        assert_eq!(clock(3723), "1:02:03");
    }

    #[test]
    fn rates_are_bytes_with_units() {
        assert_eq!(rate("500k"), Ok(512_000));
        assert_eq!(rate("7"), Ok(7));
        for bad in ["", "0", "k", "1x", "-1", "99999999999G"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert_eq!(kilobits("8"), Ok(1024));
        assert!(kilobits("0").is_err() && kilobits("1k").is_err());
    }
}
